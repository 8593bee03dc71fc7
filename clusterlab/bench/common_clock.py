"""One clock for all ranks: who called last, and by how much, also on different hosts.

Processes of one host share its monotonic clock. Of every other host, rank 0 asks one rank for its time and
takes the quickest of some answers, as Cristian did (Probabilistic clock synchronization, 1989): its clock
was read at the middle of the exchange, give or take half of that. Clocks drift apart: what was learnt is
less sure by the second, and is asked again while measuring.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path

from clusterlab.bench.control import Control

PINGS = 8
DRIFT = 50e-6
"""Two clocks differ by at most this share of the time that passes: crystals keep within 20 to 30 ppm, and
NTP moves them by less than that once they are set."""

RENEW_S = 2.0


def monotonic_us() -> float:
    """This host's clock, which timers use as well (CLOCK_MONOTONIC), in µs."""
    return time.perf_counter_ns() / 1e3


def host_clock_id() -> float:
    """The same number for processes that share a monotonic clock, and another for all others.

    Containers and simulated nodes of one kernel share it, unless they are in a time namespace of their own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        namespace = str(Path("/proc/self/ns/time").stat().st_ino)
    except OSError:
        boot, namespace = "", ""
    digest = hashlib.blake2b(f"{boot} {namespace}".encode(), digest_size=6).digest()
    return float(int.from_bytes(digest, "big"))


class CommonClock:
    """What this host's clock is to be moved by to be rank 0's, and how sure that is.

    Made and renewed by all ranks together. ``host`` numbers the clocks: ranks of one number need no
    correction between them.
    """

    def __init__(
        self, control: Control, clock_id: float, now: Callable[[], float] = monotonic_us
    ) -> None:
        self._now = now
        ids = [row[0] for row in control.gather([clock_id])]
        clocks = list(dict.fromkeys(ids))
        self.host = clocks.index(clock_id)
        self._first_ranks = [ids.index(one) for one in clocks]
        self._offset_us = 0.0
        self._half_trip_us = 0.0
        self._learnt_us = -math.inf
        self.renew(control)

    @property
    def hosts(self) -> int:
        """How many clocks there are."""
        return len(self._first_ranks)

    def common(self, at_us: float) -> float:
        """Rank 0's time when this host's clock said ``at_us``."""
        return at_us + self._offset_us

    @property
    def unsure_us(self) -> float:
        """By how much ``common`` may be wrong against rank 0's host."""
        if self.host == 0:
            return 0.0
        return self._half_trip_us + DRIFT * (self._now() - self._learnt_us)

    def renew(self, control: Control) -> None:
        """Ask the hosts again when it has been long enough, by rank 0's clock. Collective."""
        if self.hosts == 1:
            return
        age_us = self._now() - self._learnt_us if control.rank == 0 else -math.inf
        if control.largest([age_us])[0] < RENEW_S * 1e6:
            return
        learnt = [-math.inf] * (2 * self.hosts)
        for host in range(1, self.hosts):
            peer = self._first_ranks[host]
            if control.rank == 0:
                learnt[2 * host : 2 * host + 2] = self._ask(control, peer)
            elif control.rank == peer:
                for _ in range(PINGS):
                    control.receive(0)
                    control.send(self._now(), 0)
        told = control.largest(learnt)
        if self.host:
            self._offset_us, self._half_trip_us = told[2 * self.host : 2 * self.host + 2]
        self._learnt_us = self._now()

    def _ask(self, control: Control, peer: int) -> list[float]:
        """What to add to the clock of ``peer`` to get ours, and half of the trip it was learnt by."""
        best = (math.inf, 0.0)
        for _ in range(PINGS):
            begun = self._now()
            control.send(begun, peer)
            theirs = control.receive(peer)
            ended = self._now()
            best = min(best, ((ended - begun) / 2, (begun + ended) / 2 - theirs))
        return [best[1], best[0]]
