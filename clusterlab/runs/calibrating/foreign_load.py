"""How busy everything else keeps this host while our ranks run."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """CPU seconds of all processes on all cores, of this process with its threads, and the clock."""

    everyone_s: float
    mine_s: float
    clock_s: float


def cpu_times() -> CpuTimes:
    """Now. Time that a hypervisor took away counts as somebody else's."""
    import psutil

    t = psutil.cpu_times()
    idle_s = t.idle + getattr(t, "iowait", 0.0)
    # guest time is contained in user time
    busy_s = sum(t) - idle_s - getattr(t, "guest", 0.0) - getattr(t, "guest_nice", 0.0)
    return CpuTimes(busy_s, time.process_time(), time.monotonic())


def foreign_share(everyone_s: float, ranks_s: float, wall_s: float, cores: int) -> float:
    """Share (0 to 1) of the cores' time that went to others than our ranks.

    Interrupt work on our ranks' behalf is booked to nobody, so a few percent are there without
    anyone else.
    """
    if wall_s <= 0:
        return 0.0
    return min(1.0, max(0.0, (everyone_s - ranks_s) / (wall_s * cores)))
