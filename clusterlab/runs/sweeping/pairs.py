"""``clusterlab bench pairs``: from what was typed to a sweep over all pairs of ranks."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.core.errors import UsageError
from clusterlab.core.patterns import PAIRS, PAIRS_ONE_BY_ONE
from clusterlab.runs.sweeping.plan import SweepConfig, count_or_auto, resolve_config
from clusterlab.runs.sweeping.request import BenchRequest

COLLECTIVES = ("ping_pong", "send", "send_recv")

DEFAULT_SIZES = {"gloo": ("64K", "4M", 8.0), "nccl": ("64M", "256M", 4.0)}
"""-b, -e and -f when none of them is given: large enough to fill a link, small enough for n - 1 rounds."""


def wants_pairs(request: BenchRequest) -> bool:
    """Whether pairs of ranks were asked for."""
    return request.collective_text.strip().lower() == "pairs"


def resolve_pairs(request: BenchRequest, backend: str) -> SweepConfig:
    """The sweep over pairs that ``request`` describes. Raises UsageError for what pairs do not have."""
    if request.place == "in":
        raise UsageError("pairs have no in-place form", where="--place", expected="out")
    for option, value in (("--pattern", request.pattern), ("--uneven", request.uneven)):
        if value is not None:
            raise UsageError("pairs have none", where=option, expected="bench with a collective")
    for option, wanted in (("--nccl-tests", request.strict_table), ("-I", request.per_iteration)):
        if wanted:
            raise UsageError("nccl-tests has no table of pairs", where=option)
    first, last, stride = DEFAULT_SIZES[backend]
    nothing_typed = request.begin is None and request.end is None
    default_stride = stride if nothing_typed and request.step is None else None
    config = resolve_config(
        collective_text="send_recv",
        begin=request.begin or first,
        end=request.end or (None if request.begin else last),
        factor=request.factor or default_stride,
        step=request.step,
        dtype_text=request.dtype_text,
        op_text="sum",
        root=0,
        place="out",
        iterations=count_or_auto(request.iterations, "-n"),
        warmup=count_or_auto(request.warmup, "-w"),
        check=request.check,
        backend=backend,
        deadline_s=request.deadline_s,
        fabric=request.fabric,
    )
    pattern = PAIRS_ONE_BY_ONE if request.one_by_one else PAIRS
    return replace(config, collectives=COLLECTIVES, pattern=pattern)
