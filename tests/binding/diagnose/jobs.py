"""Small joined records for tests of single rules: one healthy job, changed in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.records import (
    GpuRecord,
    JoinedRecord,
    NicRecord,
    NodeRecord,
    RankRecord,
    Slurm,
)
from clusterlab.core.findings import Finding, Severity

PER_NODE = 4


def node(host: str, *, models: tuple[str, ...] = ("H100",) * PER_NODE, **more: Any) -> NodeRecord:
    """Four GPUs, two per NUMA domain of 16 cores, each with a NIC of its own."""
    number = sum(map(ord, host))
    gpus = tuple(
        GpuRecord(
            i,
            f"0000:{0x21 + 16 * i:02x}:00.0",
            f"GPU-{number:06d}{i:02d}-aaaa-bbbb-cccc-{i:012d}",
            i // 2,
            m,
        )
        for i, m in enumerate(models)
    )
    nics = tuple(NicRecord(f"mlx5_{i}", numa=i // 2, near_gpu=i) for i in range(len(models)))
    domains = {0: frozenset(range(16)), 1: frozenset(range(16, 32))}
    return NodeRecord(host, gpus, domains, nics, **more)


def job(
    env: Callable[[int, int], dict[str, str]] = lambda rank, local: {},
    *,
    hosts: tuple[str, ...] = ("n0",),
    per_node: int = PER_NODE,
    change: Callable[[RankRecord], RankRecord] = lambda rank: rank,
    launcher: str = "",
    slurm: Slurm | None = None,
    nodes: dict[str, NodeRecord] | None = None,
    **rank_fields: Any,
) -> JoinedRecord:
    """A job whose ranks see all GPUs of their node, select their local rank and have cores beside it."""
    known = nodes or {host: node(host) for host in hosts}
    ranks = []
    for n, host in enumerate(hosts):
        gpus = known[host].gpus
        for local in range(per_node):
            rank = n * per_node + local
            first = 8 * (local % 4)
            fields: dict[str, Any] = {
                "visible": tuple(g.pci for g in gpus),
                "selected_device": local,
                "cpus": frozenset(range(first, first + 8)),
            } | rank_fields
            ranks.append(change(RankRecord(host, rank, local, env(rank, local), **fields)))
    return JoinedRecord(known, tuple(ranks), launcher, slurm or Slurm())


def torch_env(rank: int, local: int, *, size: int = PER_NODE, **more: str) -> dict[str, str]:
    """What torchrun exports."""
    return {"RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": str(size)} | more


def slurm_env(rank: int, local: int, **more: str) -> dict[str, str]:
    """What srun exports."""
    return {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local)} | more


def mpi_env(rank: int, local: int, *, size: int = PER_NODE, **more: str) -> dict[str, str]:
    """What Open MPI's mpirun exports."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_SIZE": str(size),
    } | more


def own_gpu(rank: RankRecord) -> RankRecord:
    """Only the GPU of its local rank is visible to the rank, which takes ordinal 0."""
    visible = (rank.visible or ())[rank.local_rank or 0]
    return replace(rank, visible=(visible,), selected_device=0)


def codes(record: JoinedRecord) -> dict[str, Finding]:
    """All findings by code; each has evidence and a fix."""
    found = {f.code: f for f in diagnose(record)}
    assert all(f.evidence and f.fix for f in found.values())
    return found


def loud(record: JoinedRecord) -> list[str]:
    """Codes of severity warning or above."""
    return [f.code for f in diagnose(record) if f.severity is not Severity.INFO]
