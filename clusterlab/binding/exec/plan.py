"""What would be set for this rank, and why: the choices put together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from clusterlab.binding.exec.cores import CoreChoice, choose_cores
from clusterlab.binding.exec.gpu import GpuChoice, choose_gpu, device_order, unless_narrowed
from clusterlab.binding.exec.machine import KERNEL, Roots, read_cpus, read_near_nics, read_node_gpus
from clusterlab.binding.exec.nic import NicChoice, choose_nics
from clusterlab.binding.exec.scene import NodeGpu
from clusterlab.core.errors import UsageError
from clusterlab.core.order import number_list
from clusterlab.launch.claims import in_slurm_task, said
from clusterlab.launch.identity import RankIdentity, explain_identity, single_identity

_THREADS = "OMP_NUM_THREADS"


class Wanted(NamedTuple):
    """What to bind: ``bind`` of gpu, cpu, nic. ``asked``: the user named them, so a failure is said."""

    bind: frozenset[str]
    asked: bool = False


def by_default(environ: Mapping[str, str]) -> Wanted:
    """What is bound where nobody says: cores, unless CLUSTERLAB_CPU_BIND=none; NICs that are listed.

    Not the GPU: most programs take the device of their local rank, and one that is left alone in a mask
    of its own has none of that number. Not the nearest NIC: NCCL finds it, and may use others beside.
    """
    cpu = {"cpu"} if environ.get("CLUSTERLAB_CPU_BIND") != "none" else set()
    return Wanted(frozenset(cpu | ({"nic"} if environ.get("CLUSTERLAB_NICS") else set())))


class Plan(NamedTuple):
    """What the command gets. ``environment`` holds only what is set; ``cpus`` None: as given.

    ``reasons``: what decides each part. ``unfulfilled``: what was asked for and cannot be done.
    """

    rank: str
    world_size: int | None
    local_rank: int | None
    host: str
    source: str | None
    gpu: NodeGpu | None
    tag: str
    environment: Mapping[str, str]
    cpus: tuple[int, ...] | None
    reasons: Mapping[str, str]
    unfulfilled: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        gpu = self.gpu
        return {
            "rank": int(self.rank) if self.rank.isdecimal() and len(self.rank) <= 9 else None,
            "world_size": self.world_size,
            "local_rank": self.local_rank,
            "host": self.host,
            "source": self.source,
            "gpu": None
            if gpu is None
            else {
                "bus_id": gpu.bus_id,
                "uuid": gpu.uuid,
                "file": gpu.file,
                "model": gpu.model,
                "numa": gpu.numa,
            },
            "tag": self.tag,
            "set": dict(self.environment),
            "cpus": None if self.cpus is None else number_list(self.cpus),
            "reasons": dict(self.reasons),
            "unfulfilled": list(self.unfulfilled),
        }

    def lines(self) -> list[str]:
        """For people: what is set, as a shell would set it, then why."""
        shown = [f"export {name}={_quoted(value)}" for name, value in self.environment.items()]
        if self.cpus is not None:
            shown.append(f"taskset -c {number_list(self.cpus)}")
        return [*(shown or ["nothing is set"]), *(f"# {k}: {v}" for k, v in self.reasons.items())]


def make_plan(environ: Mapping[str, str], wanted: Wanted, roots: Roots = KERNEL) -> Plan:
    """Look at this process and its node and choose.

    Raises UsageError where launchers contradict each other or a GPU was asked for and there is none for
    this rank; without anything asked, the command starts unbound and the plan says so.
    """
    try:
        found = explain_identity(environ).identity
    except UsageError as error:
        if wanted.asked and wanted.bind:
            raise
        return _unknown_rank(environ, error)
    identity = found or single_identity()
    notes: list[str] = []
    unfulfilled: list[str] = []
    settings: dict[str, str] = {}
    gpus, domains = read_node_gpus(environ, notes, roots)
    order = device_order(environ, gpus, in_slurm=in_slurm_task(environ))
    if order and wanted.bind:
        settings["CUDA_DEVICE_ORDER"] = order
    choice = _gpu(identity, gpus, {**environ, **settings}, wanted, unfulfilled)
    reasons = {"rank": _rank_words(identity, found is not None), "gpu": choice.why}
    if "gpu" in wanted.bind:
        settings |= choice.narrowed
    cpus = None
    if "cpu" in wanted.bind:
        numa = {choice.gpu.numa} if choice.gpu and choice.gpu.numa is not None else set()
        cores = choose_cores(identity, choice, gpus, read_cpus(environ, numa, domains, roots))
        cpus = cores.cpus
        settings |= _threads(environ, cores, found is not None)
        reasons["cpu"] = f"{cores.why}; {cores.threads} physical cores for this rank"
        unfulfilled += [f"cpu: {cores.unfulfilled}"] if cores.unfulfilled else []
    if "nic" in wanted.bind:
        nics = _nics(identity, choice, environ, notes, roots)
        settings |= {"NCCL_IB_HCA": nics.value} if nics.value else {}
        reasons["nic"] = nics.why
        unfulfilled += [f"nic: {nics.unfulfilled}"] if nics.unfulfilled else []
    if notes:
        reasons["passed over"] = "; ".join(notes)
    label = (
        "" if choice.label is None else " gpu?" if choice.label == "?" else f" gpu {choice.label}"
    )
    return _tagged(
        Plan(
            str(identity.rank),
            identity.world_size,
            identity.local_rank,
            identity.host,
            identity.source,
            choice.gpu,
            f"rank {identity.rank} {identity.host}{label}",
            settings,
            cpus,
            reasons,
            tuple(unfulfilled),
        )
    )


def _gpu(
    identity: RankIdentity,
    gpus: tuple[NodeGpu, ...],
    environ: Mapping[str, str],
    wanted: Wanted,
    unfulfilled: list[str],
) -> GpuChoice:
    on_node = said(environ, "SLURM_GPUS_ON_NODE")
    choice = choose_gpu(identity, gpus, environ, gpus_on_node=on_node.value if on_node else None)
    if "gpu" not in wanted.bind:
        return unless_narrowed(choice, identity)
    if choice.problem and wanted.asked:
        raise UsageError(
            choice.problem,
            where=f"--bind gpu: rank {identity.rank} on {identity.host}",
            expected="one visible GPU, or one for each rank of the node",
            fix=f"{choice.why}; `clusterlab doctor` in the place of the command shows every rank",
        )
    if choice.label is None:
        unfulfilled.append(f"gpu: {choice.why}")
    return choice


def _nics(
    identity: RankIdentity,
    choice: GpuChoice,
    environ: Mapping[str, str],
    notes: list[str],
    roots: Roots,
) -> NicChoice:
    bus_id = choice.gpu.bus_id if choice.gpu else None
    near = read_near_nics(bus_id, notes, roots)
    return choose_nics(environ, identity.local_rank, near, gpu=bus_id)


def _threads(environ: Mapping[str, str], cores: CoreChoice, is_rank: bool) -> dict[str, str]:
    """A process that no launcher made a rank has the machine to itself: nothing to set."""
    if environ.get(_THREADS) or not is_rank:
        return {}
    return {_THREADS: str(cores.threads)}


def _unknown_rank(environ: Mapping[str, str], error: UsageError) -> Plan:
    rank = environ.get("PMIX_RANK", "")
    rank = rank if rank.isascii() and rank.isdigit() else "?"
    host = environ.get("SLURMD_NODENAME") or os.uname().nodename
    return _tagged(
        Plan(
            rank, None, None, host, None, None, f"rank {rank} {host}", {}, None,
            {"rank": str(error)}, (f"nothing is bound: {error}",),
        )
    )  # fmt: skip


def _tagged(plan: Plan) -> Plan:
    return plan._replace(environment={**plan.environment, "CLUSTERLAB_LOG_TAG": plan.tag})


def _rank_words(identity: RankIdentity, is_rank: bool) -> str:
    if not is_rank:
        return "no launcher made this a rank: rank 0 of 1"
    return (
        f"{identity.rank} of {identity.world_size}, local rank {identity.local_rank} of"
        f" {identity.local_world_size} on {identity.host} (says {identity.source})"
    )


def _quoted(value: str) -> str:
    plain = all(c.isalnum() or c in "=:,._-/+@%" for c in value)
    return value if value and plain else "'" + value.replace("'", "'\\''") + "'"
