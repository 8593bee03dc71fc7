"""The thin look: what this process really got. No torch, no CUDA context, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from clusterlab.binding.look import Gpu, Look, Nic
from clusterlab.binding.visible import visible_gpus
from clusterlab.core.environment import allowed_environment
from clusterlab.launch.claims import Environ, in_slurm_task, said
from clusterlab.launch.devices import select_device
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.refusals import launcher_world_size
from clusterlab.launch.roll_call import RefusedError
from clusterlab.topology.discover.distance import nic_distances
from clusterlab.topology.discover.nics import read_nics
from clusterlab.topology.discover.nvml import NvmlAbsentError, read_gpus
from clusterlab.topology.discover.pci import read_pci
from clusterlab.topology.host import numa_domains, parse_cpu_list


def nvml_gpus() -> list[Gpu]:
    """The GPUs NVML shows this process, ``numa`` unknown. Raises NvmlAbsentError."""
    return [Gpu(g.bus_id, g.uuid or "", g.name or "", mig=g.mig) for g in read_gpus()]


def look_here(
    identity: RankIdentity,
    environ: Environ,
    *,
    notes: Iterable[str] = (),
    sys: Path = Path("/sys"),
    gpus_of_node: Callable[[], list[Gpu]] = nvml_gpus,
    cores: Iterable[int] | None = None,
) -> Look:
    """Look at this process as ``identity``. What cannot be seen is None and said in ``notes``.

    ``cores`` is its CPU mask, by default asked of the kernel.
    """
    said_of = list(notes)
    mine = tuple(sorted(os.sched_getaffinity(0) if cores is None else cores))
    domains = {domain.index: domain.cores for domain in numa_domains(sys)}
    gpus = _gpus(sys, gpus_of_node, said_of)
    launcher = launcher_world_size(environ)
    look = Look(
        rank=identity.rank,
        world_size=identity.world_size,
        local_rank=identity.local_rank,
        local_world_size=identity.local_world_size,
        node_rank=identity.node_rank,
        host=identity.host,
        source=identity.source,
        pid=os.getpid(),
        cores=mine,
        numa=_domains_of(mine, domains),
        cpus_here=_cpus_here(environ, sys),
        mask=environ.get("CUDA_VISIBLE_DEVICES"),
        gpus=gpus,
        launcher_world_size=launcher.value if launcher else None,
        launcher_variable=launcher.variable if launcher else None,
        environment=allowed_environment(environ),
    )
    look = _with_gpu(look, identity, environ, said_of)
    if look.gpu is not None and look.gpu.numa is not None:
        look = replace(look, numa_cores=domains.get(look.gpu.numa, ()))
    nics = _nics(sys, look.gpu, said_of)
    return replace(look, nics=nics, notes=tuple(said_of))


def _gpus(
    sys: Path, gpus_of_node: Callable[[], list[Gpu]], notes: list[str]
) -> tuple[Gpu, ...] | None:
    try:
        gpus = gpus_of_node()
    except NvmlAbsentError as error:
        notes.append(f"NVML not available, the node's GPUs are not known: {error}")
        return None
    return tuple(replace(gpu, numa=read_pci(sys, gpu.bus_id).numa) for gpu in gpus)


def _nics(sys: Path, gpu: Gpu | None, notes: list[str]) -> tuple[Nic, ...]:
    """The RDMA devices of this host by name, with their distance to ``gpu``."""
    nics = [nic for nic in read_nics(sys, notes) if nic.rdma]
    pci = {nic.bus_id: read_pci(sys, nic.bus_id) for nic in nics if nic.bus_id}
    far = nic_distances(read_pci(sys, gpu.bus_id) if gpu else None, nics, pci)
    return tuple(
        Nic(nic.name, pci[nic.bus_id].numa if nic.bus_id else None, nic.up, d.distance, d.near)
        for nic, d in zip(nics, far, strict=True)
    )


def _with_gpu(look: Look, identity: RankIdentity, environ: Environ, notes: list[str]) -> Look:
    """The GPU this rank would take, by the rule of ``select_device``."""
    seen = visible_gpus(look.mask, look.gpus, device_order=environ.get("CUDA_DEVICE_ORDER"))
    if seen.reason:
        notes.append(f"which GPU a rank takes is not known: {seen.reason}")
    look = replace(look, visible_count=seen.count)
    if seen.count is None or (seen.count == 0 and not look.gpus):
        return look  # unknown, or a node without GPUs
    on_node = said(environ, "SLURM_GPUS_ON_NODE")
    try:
        ordinal = select_device(
            identity, seen.count, gpus_on_node=on_node.value if on_node else None
        )
    except RefusedError as error:
        return replace(look, problem=error.message)
    return replace(look, ordinal=ordinal, gpu=seen.gpus[ordinal] if seen.gpus else None)


def _domains_of(
    cores: tuple[int, ...], domains: dict[int, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The NUMA domains of ``cores``; None where /sys does not know one of them."""
    home = {core: domain for domain, members in domains.items() for core in members}
    if not all(core in home for core in cores):
        return None
    return tuple(sorted({home[core] for core in cores}))


def _cpus_here(environ: Environ, sys: Path) -> int:
    """CPUs the job may use on this host: Slurm's allocation, else this process's cgroup, else all."""
    given = said(environ, "SLURM_CPUS_ON_NODE", minimum=1) if in_slurm_task(environ) else None
    if given is not None:
        return given.value
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        group = next((x.removeprefix("0::/") for x in lines if x.startswith("0::/")), "")
        allowed = parse_cpu_list((sys / "fs/cgroup" / group / "cpuset.cpus.effective").read_text())
    except (OSError, ValueError):
        allowed = ()
    return len(allowed) or os.cpu_count() or 1
