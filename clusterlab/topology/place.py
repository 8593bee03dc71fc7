"""Ranks on a fabric: which end point each rank is."""

from __future__ import annotations

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device


def place_on(fabric: Fabric, world_size: int, *, ranks_per_host: int | None = None) -> Placement:
    """``world_size`` ranks on ``fabric``, host after host in the design's order (Slurm's block).

    One rank per GPU where the fabric has GPUs; otherwise any number of ranks share the hosts' cores,
    spread evenly over hosts and NUMA domains. ``ranks_per_host`` fills fewer (or, without GPUs, a
    stated number) on each host; the last may get fewer still. Raises UsageError when they do not fit, also
    for more on each host than one of those in use has GPUs.
    """
    if world_size < 1:
        raise UsageError(f"{world_size} ranks", where="ranks", expected="at least 1")
    if ranks_per_host is not None and ranks_per_host < 1:
        raise UsageError(f"{ranks_per_host} ranks per host", expected="at least 1")
    if fabric.models("gpu"):
        return _one_per_gpu(fabric, world_size, ranks_per_host)
    return _shared_cores(fabric, world_size, ranks_per_host)


def _one_per_gpu(fabric: Fabric, world_size: int, ranks_per_host: int | None) -> Placement:
    ranks: list[RankPlacement] = []
    for host in fabric.hosts:
        own = fabric.on_host(host, "gpu")
        if ranks_per_host is not None and own and len(own) < ranks_per_host:
            raise UsageError(
                f"{ranks_per_host} on each host of fabric {fabric.name}",
                where="ranks per host",
                expected=f"at most {len(own)}, the GPUs of {host}",
            )
        gpus = own[: _fewer(ranks_per_host, world_size - len(ranks))]
        ranks += [
            rank_on_gpu(gpu, host, rank=len(ranks) + local_rank, local_rank=local_rank)
            for local_rank, gpu in enumerate(gpus)
        ]
        if len(ranks) == world_size:
            return Placement(tuple(ranks))
    each = "" if ranks_per_host is None else f" ({ranks_per_host} per host)"
    raise UsageError(
        f"{world_size} ranks on fabric {fabric.name}",
        where="ranks",
        expected=f"at most its {len(ranks)} GPUs{each}",
    )


def rank_on_gpu(gpu: Device, host: str, *, rank: int, local_rank: int) -> RankPlacement:
    """A rank that has ``gpu`` of ``host`` to itself."""
    return RankPlacement(
        rank=rank,
        host=host,
        local_rank=local_rank,
        gpu=gpu.name,
        gpu_name=gpu.model,
        numa=gpu.numa,
        device=gpu.name,
    )


def _fewer(ranks_per_host: int | None, left: int) -> int:
    return left if ranks_per_host is None else min(ranks_per_host, left)


def _shared_cores(fabric: Fabric, world_size: int, ranks_per_host: int | None) -> Placement:
    cpus = {h: fabric.on_host(h, "cpu") for h in fabric.hosts}
    hosts = [h for h in fabric.hosts if cpus[h]]
    if not hosts:
        raise UsageError(
            "neither GPUs nor CPUs to place ranks on",
            where=f"fabric {fabric.name}",
            expected="hosts with devices of kind gpu or cpu",
        )
    each = ranks_per_host or -(-world_size // len(hosts))
    if world_size > each * len(hosts):
        raise UsageError(
            f"{world_size} ranks at {each} per host",
            where="ranks",
            expected=f"at most {each * len(hosts)} on the {len(hosts)} hosts of {fabric.name}",
        )
    ranks = []
    for rank in range(world_size):
        host, local_rank = hosts[rank // each], rank % each
        cpu = cpus[host][local_rank % len(cpus[host])]
        ranks.append(
            RankPlacement(
                rank=rank, host=host, local_rank=local_rank, numa=cpu.numa, device=cpu.name
            )
        )
    return Placement(tuple(ranks))
