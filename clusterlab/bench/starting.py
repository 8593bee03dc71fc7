"""Ranks begin a pass together: within a microsecond where they share a clock."""

from __future__ import annotations

from clusterlab.bench.common_clock import CommonClock, monotonic_us
from clusterlab.bench.control import Control

LEAD_US = 300.0
"""From the last rank's reading of the clock to the start: longer than ranks mostly take to leave an exchange
(the hosts of two H200 left one 40 to 460 µs apart, median 160)."""


def begin_together(control: Control, clock: CommonClock) -> None:
    """Return on all ranks at the same instant, as well as their clocks are known. Collective.

    Ranks leave a barrier when each has heard of it, tens of µs apart; the first to begin a loop of calls then
    waits in it for the others, and a loop of twenty small ones reads several µs a call too long. So the
    ranks agree on an instant by their common clock, and wait for it awake. On CPUs, which ranks may share, a
    barrier has to do.
    """
    if control.device.type != "cuda":
        control.barrier()
        return
    (latest_us,) = control.largest([clock.common(monotonic_us())])
    wait_until(latest_us + LEAD_US, clock)


def wait_until(start_us: float, clock: CommonClock) -> None:
    """Spin until ``start_us`` of the common clock."""
    while clock.common(monotonic_us()) < start_us:
        pass
