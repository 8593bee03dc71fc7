"""Which kind of link an algorithm keeps busiest, and for how long: what explains a busbw."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.cost.effects.features import gpu_link_GBps, nics_GBps
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.schedules.registry import counts
from clusterlab.cost.schedules.shape import GroupShape
from clusterlab.formats.nccl_tables import PORT_SHARE


@dataclass(frozen=True, slots=True)
class Busiest:
    """A kind of link and the µs that its bytes take at its full rate."""

    name: str
    busy_us: float


NICS = "NICs of each host"

_CHUNKS = 32
"""Of a pipelined algorithm; the bytes per link hardly depend on it."""


def busiest(
    comm: Communicator, collective: str, algorithm: str, size_bytes: float, share: float = 1.0
) -> Busiest:
    """From the algorithm's own loads (schedules/), so that NVLS's S (1 + 1/n) and a ring's 2 S (n-1)/n
    both show the share of the links that they really fill. ``share`` of the NICs' rate is left.
    """
    per_byte = _per_byte(comm, collective, algorithm)
    inside = per_byte[0] * size_bytes / (gpu_link_GBps(comm) * 1e3)
    name = {"nvlink": "NVLink", "xgmi": "xGMI", "pcie": "PCIe"}[comm.intra]
    if comm.nodes == 1 or comm.network is None:
        return Busiest(f"{name} of each GPU", inside)
    between = per_byte[1] * size_bytes / (nics_GBps(comm) / PORT_SHARE * share * 1e3)
    if between >= inside:
        return Busiest(NICS, between)
    return Busiest(f"{name} of each GPU", inside)


def _per_byte(comm: Communicator, collective: str, algorithm: str) -> tuple[float, float]:
    """Bytes over a GPU's links, and over a host's NICs, the busier way, per byte of the buffer."""
    ranks, nodes = comm.ranks, comm.nodes
    heads = max(1, min(comm.heads, ranks // nodes))
    try:
        shape = GroupShape(ranks, nodes, heads) if ranks % nodes == 0 else GroupShape(ranks)
        found = counts(collective, algorithm, shape, 1.0, chunks=_CHUNKS)
    except UsageError:  # an algorithm or shape without closed form: a ring's load stands for it
        passes = 2 if collective == "all_reduce" else 1
        each = passes * (ranks - 1) / ranks
        return each, each
    return (
        max(found.gpu_out_bytes, found.gpu_in_bytes),
        max(found.node_out_bytes, found.node_in_bytes),
    )
