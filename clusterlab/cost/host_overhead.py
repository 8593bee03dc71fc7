"""What issuing a GPU collective costs the host: a floor under small sizes.

Measured on two H200 (NCCL 2.28.9, torch 2.11), all_reduce of 8 B, time per call in a loop: captured in
a graph 5.4–6.5 µs, ncclAllReduce called directly 13–15 µs, torch's eager call 34–40 µs; from 8 MiB on
all three are equal. So launching overlaps with running, and only its own length is a floor.
"""

from __future__ import annotations

from dataclasses import replace

from clusterlab.cost.estimate import Estimate
from clusterlab.cost.types import Constant, Issue

_SOURCE = "measured on two H200, NCCL 2.28.9, torch 2.11"

LAUNCH_US: dict[Issue, float] = {"eager": 38.0, "library": 0.0, "graph": 0.0}
"""Least time from one call to the next, by the way calls are issued. A direct call and a graph hide behind
the collective where each GPU has a process or thread of its own, which is how the model's constants were
measured (one process that drives several GPUs takes 4 to 7 µs for each of them)."""


def with_launch(estimate: Estimate, issue: Issue, notes: tuple[str, ...] = ()) -> Estimate:
    """``estimate`` no faster than calls can be issued."""
    floor_us = LAUNCH_US[issue]
    if not floor_us:
        return replace(estimate, notes=(*estimate.notes, *notes))
    launch = Constant(f"launch of one call ({issue})", floor_us, "µs", _SOURCE)
    estimate = replace(
        estimate,
        provenance=(*estimate.provenance, launch),
        notes=(*estimate.notes, *notes),
    )
    if estimate.interval is not None:
        low_us, high_us = (
            max(t, floor_us) for t in (estimate.interval.low_us, estimate.interval.high_us)
        )
        within = replace(estimate.interval, low_us=low_us, high_us=high_us)
        estimate = replace(estimate, interval=within)
    if estimate.time_us >= floor_us:
        return estimate
    return replace(estimate, time_us=floor_us, bottleneck="launch on the host", busy_us=floor_us)
