"""One rank's part of the joined record: what this process really got. Nothing is changed, no CUDA is used."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterlab.binding.probe.access import Open, openable, try_open
from clusterlab.binding.probe.ask_nvml import ask_nvml
from clusterlab.binding.probe.network import NicsHere, interfaces, resolve
from clusterlab.binding.probe.node import AskNvml, NodeGpu, NodeView, view_node
from clusterlab.binding.probe.surroundings import (
    cgroup_hint,
    container_here,
    deciding_environment,
    ephemeral_ports,
    launcher_line,
    launchers,
    parent_command,
    parent_environment,
    slurm_facts,
    slurm_folder,
)
from clusterlab.binding.probe.visible import visible
from clusterlab.binding.records import GpuRecord, JoinedRecord, NodeRecord, RankRecord
from clusterlab.launch.claims import Environ, said
from clusterlab.launch.devices import select_device
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.roll_call import RefusedError


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to look: this machine, unless a test gives another."""

    sys: Path = Path("/sys")
    root: Path = Path("/")
    nvml: AskNvml = ask_nvml
    attempt: Open = try_open
    cores: Iterable[int] | None = None

    @property
    def proc(self) -> Path:
        """Its /proc."""
        return self.root / "proc"


THIS_MACHINE = Machine()


def probe_here(
    identity: RankIdentity,
    environ: Environ,
    *,
    program: RankIdentity | None = None,
    notes: Iterable[str] = (),
    slurm_version: str | None = None,
    machine: Machine = THIS_MACHINE,
) -> JoinedRecord:
    """This process as ``identity`` and its node, as a record of one rank.

    ``program`` is who the program takes itself for, where that is not the launcher's word (a spawner in
    every task): the device it would take follows from that. What cannot be seen is None and in the
    rank's ``notes``.
    """
    told = list(notes)
    folder = slurm_folder(environ)
    view = view_node(
        told,
        nvml=machine.nvml,
        sys=machine.sys,
        proc=machine.proc,
        dev=machine.root / "dev",
        gres_conf=folder / "gres.conf" if folder else None,
        node_name=environ.get("SLURMD_NODENAME", identity.host),
    )
    may_open = openable(view.gpus, told, attempt=machine.attempt)
    seen = visible(view.gpus, may_open, view.mig, environ, told)
    itself = program or identity
    ordinal = _selected(itself, seen, environ)
    nics = NicsHere(told, sys=machine.sys)
    gpu = _driven(view, seen, ordinal)
    hint = cgroup_hint(root=machine.root)
    environment = deciding_environment(environ)
    rank = RankRecord(
        host=identity.host,
        rank=identity.rank,
        local_rank=itself.local_rank,
        env=environment,
        visible=seen,
        selected_device=ordinal,
        cpus=frozenset(os.sched_getaffinity(0) if machine.cores is None else machine.cores),
        openable=None if may_open is None or not view.gpus else tuple(g.key for g in may_open),
        container=container_here(environ, root=machine.root),
        parent_env=parent_environment(os.getppid(), environment),
        interfaces=interfaces(),
        hostname_short=socket.gethostname().partition(".")[0] or None,
        resolved=_resolved(identity, environ, told),
        ephemeral_ports=ephemeral_ports(proc=machine.proc),
        nearest_nics=nics.nearest(gpu) if gpu else (),
        identity_from=_identity_words(identity, environ),
        notes=(*told, *((hint,) if hint else ())),
    )
    node = NodeRecord(
        host=identity.host,
        gpus=tuple(_gpu_record(i, g) for i, g in enumerate(view.gpus)),
        numa=view.domains if rank.cpus and _known(rank.cpus, view) else {},
        nics=nics.records(view.gpus),
        mig=view.mig,
    )
    return JoinedRecord(
        nodes={identity.host: node},
        ranks=(rank,),
        launcher=launcher_line(environ, parent_command(os.getppid(), proc=machine.proc)),
        slurm=slurm_facts(folder, slurm_version),
    )


def _selected(identity: RankIdentity, seen: Sequence[str] | None, environ: Environ) -> int | None:
    """The ordinal the launcher's layout gives this rank: ``select_device``'s, else its local rank."""
    if not seen:
        return None
    on_node = said(environ, "SLURM_GPUS_ON_NODE")
    try:
        return select_device(identity, len(seen), gpus_on_node=on_node.value if on_node else None)
    except RefusedError:
        return identity.local_rank  # beyond what it sees: what a program would ask for


def _driven(view: NodeView, seen: Sequence[str] | None, ordinal: int | None) -> NodeGpu | None:
    """The node's GPU behind ``ordinal``."""
    if not seen or ordinal is None or ordinal >= len(seen):
        return None
    key = seen[ordinal]
    parent = next((m.parent for m in view.mig if m.uuid == key), None)
    if parent is not None:
        return view.gpus[parent]
    return next((gpu for gpu in view.gpus if gpu.key == key), None)


def _known(cpus: frozenset[int], view: NodeView) -> bool:
    """Whether the node's domains account for the rank's CPUs (a lab pretends CPUs that /sys lacks)."""
    return cpus <= frozenset[int]().union(*view.domains.values())


def _gpu_record(index: int, gpu: NodeGpu) -> GpuRecord:
    return GpuRecord(index, gpu.key, uuid=gpu.uuid, numa=gpu.numa, model=gpu.model)


def _resolved(identity: RankIdentity, environ: Environ, notes: list[str]) -> dict[str, str]:
    """What MASTER_ADDR resolves to here; on the very host it names, whatever that is will do."""
    name = environ.get("MASTER_ADDR", "")
    own = (identity.host, socket.gethostname(), "localhost")
    if (
        not name
        or identity.world_size == 1
        or name in own
        or name in {h.partition(".")[0] for h in own}
    ):
        return {}
    address = resolve(name)
    if address is None:
        notes.append(f"MASTER_ADDR={name} is a name that nothing here resolves within 2 s")
    return {name: address} if address else {}


def _identity_words(identity: RankIdentity, environ: Environ) -> str:
    around = launchers(environ)
    return f"{identity.source} ({' > '.join(around)})" if len(around) > 1 else identity.source
