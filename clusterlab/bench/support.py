"""Which combinations of collective, dtype and operator a backend really has.

gloo: every combination tried with torch 2.13 on CPU; tests/bench/test_ranks.py tries them all again, also
those called unsupported. NCCL: every combination tried with torch 2.11 and NCCL 2.28.9 on one and two
H200; tests/bench/test_nccl.py repeats it. fp8 needs Hopper or newer there, and NCCL 2.24.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.bench.options import TIMING_MODES, BenchOptions
from clusterlab.bench.rounding import avg_overflows
from clusterlab.core.collectives import collective
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Point
from clusterlab.core.suggest import unknown


def unsupported_reason(
    backend: str, world_size: int, name: str, dtype: str, op: str | None
) -> str | None:
    """Why ``backend`` cannot run collective ``name`` on ``dtype`` with ``op``; None when it can.

    ``op`` is ignored by collectives that do not reduce.
    """
    reduces = collective(name).reduces
    kind = DTYPES[dtype]
    if reduces and op == "avg" and avg_overflows(world_size, kind):
        return f"the sum of {world_size} {dtype} values does not fit"
    if backend == "gloo":
        return _gloo(world_size, name, dtype, op if reduces else None)
    if world_size == 1 and op == "avg" and dtype.startswith("float8") and reduces:
        return "NCCL refuses fp8 avg on a single rank"
    return None


def _gloo(world_size: int, name: str, dtype: str, op: str | None) -> str | None:
    if name in ("send_recv", "send", "ping_pong"):
        # by bytes, so any dtype; but its transport has no connection from a rank to itself
        return "gloo does not send to the same rank" if world_size == 1 else None
    if dtype.startswith("float8"):
        return "gloo moves fp8 by send_recv only"
    if op == "avg" and DTYPES[dtype].kind == "int":
        return "gloo divides the sum in floating point, which integers cannot hold"
    return None


def refuse_ways(points: Sequence[Point], options: BenchOptions, backend: str) -> None:
    """Raise UsageError for a way to call that ``backend`` does not have, or that does not exist."""
    timings = dict.fromkeys(point.timing for point in points)
    for timing in timings:
        if timing not in TIMING_MODES:
            raise unknown("timing mode", timing, TIMING_MODES)
        if timing != "eager" and backend == "gloo":
            raise UsageError(
                f"{timing}: gloo works on the calling thread, without CUDA graphs or calls but torch's",
                where="timing",
                expected="eager, or NCCL on GPUs",
            )
    if options.aggregated > 1 and backend == "gloo":
        raise UsageError(
            f"{options.aggregated} calls in a group: gloo has no groups of calls",
            where="aggregated",
            expected="1, or NCCL on GPUs",
        )
    if options.aggregated > 1 and any(p.collective == "ping_pong" for p in points):
        raise UsageError(
            "the calls of a group do not wait for each other, and those of a ping_pong must",
            where="aggregated",
            expected="1",
        )
    if options.blocking and "graph" in timings:
        raise UsageError(
            "the host cannot wait between the calls of a graph",
            where="blocking",
            expected="timing eager or direct",
        )
