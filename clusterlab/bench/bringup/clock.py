"""When a process started and how long each phase took since, on one clock: the one of /proc/PID/stat."""

from __future__ import annotations

import os
import time
from pathlib import Path

from clusterlab.core.bringup import PHASES

_STARTTIME = 22 - 3
"""Field 22 of /proc/PID/stat (man 5 proc_pid_stat), counted after the name in brackets, which is field 2."""


def now_s() -> float:
    """Seconds since boot, suspends included: the clock that the kernel notes a process's start on."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def process_start_s() -> float:
    """When this process was forked, on ``now_s``'s clock; 10 ms fine. exec does not change it."""
    stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
    ticks = float(stat.rpartition(")")[2].split()[_STARTTIME])
    # A kernel that tells no start (0 in some sandboxes) leaves the phase before main out.
    started = ticks / os.sysconf("SC_CLK_TCK")
    return started if 0 < started <= now_s() else now_s()


class Marks:
    """Ends of phases, one after the other; what lies between ``pause`` and the next phase is left out."""

    def __init__(self, started_s: float) -> None:
        self._started_s = self._last_s = started_s
        self._spans: dict[str, float] = {}

    def end(self, phase: str, *, at_s: float | None = None) -> None:
        """``phase`` ends now, or ended at ``at_s``."""
        at_s = now_s() if at_s is None else at_s
        # Ticks of 10 ms may put the start of a fork before the moment that asked for it.
        self._spans[phase] = max(0.0, at_s - self._last_s)
        self._last_s = max(self._last_s, at_s)

    def pause(self) -> None:
        """The next phase begins now: what the harness did meanwhile counts nowhere."""
        self._last_s = now_s()

    @property
    def started_unix_s(self) -> float:
        """The start on the host's clock of the day."""
        return time.time() - (now_s() - self._started_s)

    def phases(self) -> dict[str, float]:
        """Seconds of each phase that was met, in the order of PHASES."""
        return {phase: self._spans[phase] for phase in PHASES if phase in self._spans}
