"""Which cores are this rank's: its GPU's NUMA domain, shared out among the ranks next to it. Pure.

Never a core outside the mask the rank was given. A mask of the rank's own (Slurm's --cpu-bind=cores, an
outer taskset) stays as it is: only ranks that were left on all the job's CPUs are bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterlab.binding.exec.gpu import GpuChoice
from clusterlab.binding.exec.scene import Cpus, NodeGpu
from clusterlab.core.order import number_list
from clusterlab.launch.identity import RankIdentity


class Sharers(NamedTuple):
    """Place ``position`` of ``places`` among those that share a domain; ``each``: ranks in one place."""

    position: int
    places: int
    each: int = 1


class CoreChoice(NamedTuple):
    """``cpus`` to bind to, None: as given. ``threads``: physical cores for this rank (OMP_NUM_THREADS).

    ``why`` explains; ``unfulfilled``: why cores next to the GPU could not be given.
    """

    cpus: tuple[int, ...] | None
    threads: int
    why: str
    unfulfilled: str | None = None


def choose_cores(
    identity: RankIdentity, choice: GpuChoice, gpus: Sequence[NodeGpu], cpus: Cpus
) -> CoreChoice:
    """The cores of this rank, given its GPU and the node's ``gpus``."""
    local = identity.local_world_size
    domain = choice.gpu.numa if choice.gpu else None
    near = (
        tuple(sorted(set(cpus.domains.get(domain, ())) & set(cpus.mine)))
        if domain is not None
        else ()
    )
    cores = physical_cores(cpus.mine, cpus.siblings)
    own = len(cpus.mine) < cpus.here and len(cpus.mine) * local <= cpus.here
    if own:
        far = domain is not None and domain in cpus.domains and not near
        said = (
            f"CPUs {number_list(cpus.mine)} are all outside NUMA domain {domain}, where its GPU is"
        )
        why = f"CPUs {number_list(cpus.mine)} as the launcher gave them"
        return CoreChoice(None, len(cores), why, said if far else None)
    shared = max(1, len(cores) // local)
    if domain is None or domain not in cpus.domains:
        what = (
            "its GPU is not known" if choice.gpu is None else "its GPU's NUMA domain is not known"
        )
        return CoreChoice(None, shared, f"CPUs as given: {what}", what)
    if not near:
        said = f"none of its CPUs {number_list(cpus.mine)} is in NUMA domain {domain}, where its GPU is"
        return CoreChoice(None, shared, f"CPUs as given: {said}", said)
    sharers = sharers_of(identity, choice, gpus)
    near_cores = physical_cores(near, cpus.siblings)
    if (
        len(near_cores) < sharers.places
    ):  # on so few, ranks would wait for each other while others idle
        said = f"{len(near_cores)} cores in NUMA domain {domain} for {sharers.places} GPUs"
        return CoreChoice(None, shared, f"CPUs as given: {said}", said)
    mine = share(near_cores, sharers.position, sharers.places)
    why = (
        f"share {sharers.position + 1} of {sharers.places} of NUMA domain {domain}, next to its GPU"
    )
    taken = tuple(sorted(cpu for core in mine for cpu in core))
    return CoreChoice(taken, max(1, len(mine) // sharers.each), why)


def physical_cores(
    cpus: Sequence[int], siblings: Mapping[int, tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """``cpus`` by physical core, in the order of each core's first; unknown siblings: cores of their own."""
    allowed, seen, cores = set(cpus), set[int](), []
    for cpu in sorted(allowed):
        if cpu in seen:
            continue
        core = tuple(sorted(allowed & {cpu, *siblings.get(cpu, ())} - seen))
        seen.update(core)
        cores.append(core)
    return cores


def share(cores: Sequence[tuple[int, ...]], position: int, count: int) -> Sequence[tuple[int, ...]]:
    """Part ``position`` of ``places`` neighbouring parts that differ by at most one core."""
    return cores[len(cores) * position // count : len(cores) * (position + 1) // count]


def sharers_of(identity: RankIdentity, choice: GpuChoice, gpus: Sequence[NodeGpu]) -> Sharers:
    """Who shares the domain of ``choice.gpu``.

    Ranks that see one common set of GPUs: those whose GPU is in the domain. Isolated ranks know nothing
    of each other's GPU: then the domain's GPUs share it, which never gives one core to two of them.
    """
    gpu = choice.gpu
    if gpu is None or identity.local_world_size == 1:
        return Sharers(0, 1)
    if choice.of_ranks:
        there = [rank for rank, other in enumerate(choice.of_ranks) if other.numa == gpu.numa]
        return Sharers(there.index(identity.local_rank), len(there))
    beside = [other for other in gpus if other.numa == gpu.numa]
    return Sharers(beside.index(gpu), len(beside), -(-identity.local_world_size // len(gpus)))
