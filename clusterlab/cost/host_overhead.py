"""What issuing a GPU collective costs the host: a floor under small sizes.

Measured on two H200 (NCCL 2.28.9, torch 2.11), all_reduce of 8 B, time per call in a loop: captured in
a graph 5.4–6.5 µs, ncclAllReduce called directly 13–15 µs, torch's eager call 34–40 µs; from 8 MiB on
all three are equal. So launching overlaps with running, and only its own length is a floor. A calibration
from a run with eager calls knows its own host's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterlab.cost.estimate import Estimate
from clusterlab.cost.types import Constant, Issue

_SOURCE = "measured on two H200, NCCL 2.28.9, torch 2.11"

LAUNCH_US: dict[Issue, float] = {"eager": 38.0, "library": 0.0, "graph": 0.0}
"""Least time from one call to the next, by the way calls are issued. A direct call and a graph hide behind
the collective where each GPU has a process or thread of its own, which is how the model's constants were
measured (one process that drives several GPUs takes 4 to 7 µs for each of them)."""


SAME_FROM_BYTES = 8 << 20
"""From this size on the ways of issuing calls take the same time."""

_EAGER_RANGE_US = (34.0, 40.0)


@dataclass(frozen=True, slots=True)
class Launch:
    """Least time (µs) from one call to the next as ``issue`` makes them on one system, from ``points``
    measured there, most of which lie between ``low_us`` and ``high_us``.
    """

    issue: Issue
    time_us: float
    low_us: float
    high_us: float
    points: int


def with_launch(
    estimate: Estimate,
    issue: Issue,
    notes: tuple[str, ...] = (),
    measured: tuple[tuple[Launch, ...], str] = ((), ""),
) -> Estimate:
    """``estimate`` no faster than calls can be issued; ``measured``: on this system, and where from."""
    launches, source = measured
    own = next((one for one in launches if one.issue == issue), None)
    floor_us = LAUNCH_US[issue] if own is None else own.time_us
    if not floor_us:
        return replace(estimate, notes=(*estimate.notes, *notes))
    launch = Constant(
        f"launch of one call ({issue})", floor_us, "µs", _SOURCE if own is None else source
    )
    estimate = replace(
        estimate,
        provenance=(*estimate.provenance, launch),
        notes=(*estimate.notes, *notes),
    )
    if estimate.interval is not None:
        low_us, high_us = _EAGER_RANGE_US if own is None else (own.low_us, own.high_us)
        within = replace(
            estimate.interval,
            low_us=max(estimate.interval.low_us, low_us),
            high_us=max(estimate.interval.high_us, high_us),
        )
        estimate = replace(estimate, interval=within)
    if estimate.time_us >= floor_us:
        return estimate
    return replace(estimate, time_us=floor_us, bottleneck="launch on the host", busy_us=floor_us)
