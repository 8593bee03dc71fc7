"""What NCCL takes on GPUs: its own ring and tree model, and a plain one where it has none.

Ground floor: ring and tree × LL, LL128, Simple with NCCL 2.30.7's constants for Hopper; NVLS, CollNet,
PAT, other GPU generations and what measurements add (ramps, per-fabric latencies) are not in it, and
the provenance says so. all_to_all and send_recv have no model in NCCL: theirs is one latency and the
load on the fabric's links.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost import nccl_constants as const
from clusterlab.cost.nccl_graph import Communicator

ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "all_reduce": ("tree", "ring"),
    "reduce_scatter": ("ring",),
    "all_gather": ("ring",),
    "broadcast": ("ring",),
    "reduce": ("ring",),
}
"""Which of the two NCCL uses for a collective."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One entry of NCCL's tuning table, evaluated at a size. ``algbw_GBps`` is NCCL's (size over time)."""

    algorithm: str
    protocol: str
    latency_us: float
    algbw_GBps: float
    time_us: float


def tuning_table(collective: str, comm: Communicator) -> dict[tuple[str, str], tuple[float, float]]:
    """(algorithm, protocol) to (latency µs, algorithm bandwidth GB/s), as NCCL's TUNING log prints it."""
    return {
        (algorithm, protocol): (
            _latency_us(collective, algorithm, p, comm),
            _algbw_GBps(collective, algorithm, p, comm),
        )
        for algorithm in ALGORITHMS[collective]
        for p, protocol in enumerate(const.PROTOCOLS)
    }


def choices(
    collective: str, size_bytes: float, comm: Communicator, overrides: Mapping[str, str]
) -> list[Choice]:
    """Every algorithm × protocol that ``overrides`` (NCCL_ALGO, NCCL_PROTO) leave, fastest first."""
    algorithms = _allowed(overrides.get("NCCL_ALGO"), ("tree", "ring"), "NCCL_ALGO")
    protocols = _allowed(overrides.get("NCCL_PROTO"), const.PROTOCOLS, "NCCL_PROTO")
    table = [
        Choice(
            algorithm, protocol, latency, algbw,
            _time_us(collective, (algorithm, protocol), (latency, algbw), size_bytes, comm),
        )
        for (algorithm, protocol), (latency, algbw) in tuning_table(collective, comm).items()
        if algorithm in algorithms and protocol in protocols
    ]  # fmt: skip
    if not table:
        raise UsageError(
            f"NCCL_ALGO={overrides.get('NCCL_ALGO')} leaves nothing for {collective}",
            where="NCCL_ALGO",
            expected="one of " + ", ".join(ALGORITHMS[collective]),
        )
    return sorted(table, key=lambda choice: choice.time_us)


def least_us(
    collective: str, size_bytes: float, comm: Communicator, overrides: Mapping[str, str]
) -> float:
    """The longest time that any smaller size takes: a larger one takes no less.

    NCCL's tree correction steps up with size, so its own estimates fall by up to a fifth there. They
    decide what is chosen; they are not what a larger buffer takes.
    """
    if "tree" not in ALGORITHMS[collective]:
        return 0.0
    edges = [64 * 2**k for k in range(1, len(const.TREE_CORRECTION["simple"]) + 1)]
    return max(
        (
            choices(collective, edge * (1 - 1e-12), comm, overrides)[0].time_us
            for edge in edges
            if edge <= size_bytes
        ),
        default=0.0,
    )


def _allowed(text: str | None, names: tuple[str, ...], variable: str) -> tuple[str, ...]:
    """NCCL's grammar: a comma-separated list, or ^ and a list of what not to use; any case."""
    if not text:
        return names
    exclude = text.startswith("^")
    listed = [word.strip().lower() for word in text.removeprefix("^").split(",")]
    for word in listed:
        if word not in names:
            raise unknown("value", word, names, where=variable)
    return tuple(n for n in names if (n in listed) != exclude)


def _steps(collective: str, n: int) -> int:
    return {"all_reduce": 2 * (n - 1), "reduce_scatter": n - 1, "all_gather": n - 1}.get(
        collective, n
    )


def _scale(nodes: int) -> int:
    """Index of NCCL's per-scale tables: one node, two, four and more."""
    return nodes - 1 if nodes <= 2 else 2


def _latency_us(collective: str, algorithm: str, p: int, comm: Communicator) -> float:
    base = const.BASE_US[algorithm][p]
    intra = const.HOP_US[comm.intra, algorithm][p]
    nodes, n = comm.nodes, comm.ranks
    inter_row = "tree" if comm.ranks_per_node == 1 else algorithm
    inter = const.HOP_US["net", inter_row][p]
    if algorithm == "tree":
        return base + 2 * ((n / nodes - 1) * intra + math.floor(math.log2(nodes)) * inter)
    if collective in ("broadcast", "reduce"):
        return base + (const.HOP_US["net", "ring"][p] if nodes > 1 else intra)
    inter_steps = (2 if collective == "all_reduce" else 1) * (nodes - 1)
    overhead = 0.0
    if nodes > 1:
        overhead = const.NET_OVERHEAD_US * (3 if const.PROTOCOLS[p] == "simple" else 1)
    inner_steps = _steps(collective, n) - inter_steps
    return base + inner_steps * max(intra, overhead) + inter_steps * inter


def _algbw_GBps(collective: str, algorithm: str, p: int, comm: Communicator) -> float:
    if algorithm == "tree":
        return _tree_GBps(p, comm) / 2
    bus = comm.channels * comm.ring_GBps
    rate = (
        min(_ll_max_GBps(comm), bus / 2),
        min(0.92 * bus, comm.channels * const.RING_LL128_PER_CHANNEL_GBPS),
        bus,
    )[p]
    return rate * comm.ranks / _steps(collective, comm.ranks)


def _tree_GBps(p: int, comm: Communicator) -> float:
    scale = _scale(comm.nodes)
    bus = min(
        0.92 * comm.channels * comm.tree_GBps, comm.channels * const.TREE_PER_CHANNEL_GBPS[scale]
    )
    share = 7 / 9 if comm.nodes == 1 else 120 / 128
    rate = (
        min(bus / 3.8, _ll_max_GBps(comm)),
        min(bus * share, comm.channels * const.TREE_LL128_PER_CHANNEL_GBPS[scale]),
        bus,
    )[p]
    return rate * (const.PLAIN_TREE if comm.nodes > 1 else 1.0)


def _ll_max_GBps(comm: Communicator) -> float:
    row = const.LL_MAX_GBPS if comm.nodes == 1 else const.LL_MAX_GBPS_INTEL
    return row[_scale(comm.nodes)]


def _time_us(
    collective: str,
    which: tuple[str, str],
    entry: tuple[float, float],
    size_bytes: float,
    comm: Communicator,
) -> float:
    """NCCL's ncclTopoGetAlgoTime: latency plus size over bandwidth, with its two corrections."""
    algorithm, protocol = which
    latency, algbw = entry
    if algorithm == "tree":
        log = max(0, math.floor(math.log2(max(1.0, size_bytes / 64))))
        factors = const.TREE_CORRECTION[protocol]
        algbw *= factors[log] if log < len(factors) else 1.0
    elif (
        protocol == "simple"
        and collective == "all_reduce"
        and comm.nodes > 1
        and size_bytes / (comm.channels * comm.ranks) >= 64
    ):
        latency *= const.PLATEAU_LATENCY
    return latency + size_bytes / (algbw * 1e3)
