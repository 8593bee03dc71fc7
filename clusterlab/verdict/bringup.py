"""What a bring-up says: who was slow in which phase, and whether communicators leave things behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from clusterlab.core.bringup import PHASES, RESOURCES, Bringup, RankBringup
from clusterlab.core.findings import Finding, Severity

TOLERANCE = {"device_bytes": 65536.0, "rss_bytes": 65536.0, "fds": 0.05, "threads": 0.05}
"""How much one communicator may leave behind. What leaks a communicator's buffers leaks megabytes, what
leaks a descriptor one each; torch itself keeps 2 to 4 KiB of a gloo group (docs/measured/bringup.md)."""

LEAST_COUNTED = 20
"""Communicators after warm-up without which nothing is concluded."""

_MOST_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Spread:
    """One phase over all ranks, in seconds."""

    phase: str
    min_s: float
    median_s: float
    max_s: float
    slowest: RankBringup


@dataclass(frozen=True, slots=True)
class Growth:
    """What one resource of one rank gained with each communicator after warm-up.

    ``per_communicator`` is the Theil-Sen slope: the median of the slopes between all pairs of samples.
    ``steady`` is the smaller of the slopes of the first and the second half: a single step, as when a pool
    is enlarged, is in one of them only. ``whole`` is the last sample minus the first.
    """

    resource: str
    rank: int
    host: str
    per_communicator: float
    steady: float
    whole: float

    @property
    def grows(self) -> bool:
        """Beyond the tolerance, all along."""
        return min(self.per_communicator, self.steady) > TOLERANCE[self.resource]


def spreads(ranks: Sequence[RankBringup]) -> list[Spread]:
    """Each phase that ranks went through, in order, the total after those it is the sum of."""
    found = []
    for phase in PHASES:
        timed = [(rank.phases[phase], rank) for rank in ranks if phase in rank.phases]
        if timed:
            found.append(_spread(phase, timed))
    total = _spread("total", [(rank.total_s, rank) for rank in ranks])
    after = [s for s in found if s.phase == "second_call"]
    return [*(s for s in found if s not in after), total, *after]


def _spread(phase: str, timed: Sequence[tuple[float, RankBringup]]) -> Spread:
    times = [seconds for seconds, _ in timed]
    slowest_s, slowest = max(timed, key=lambda pair: pair[0])
    return Spread(phase, min(times), median(times), slowest_s, slowest)


def last_to_arrive(ranks: Sequence[RankBringup]) -> tuple[RankBringup, float]:
    """Who reached the rendezvous last, counted from its own start, and after how many seconds.

    The others' rendezvous is mostly waiting for it.
    """

    def came_after_s(rank: RankBringup) -> float:
        return sum(rank.phases.get(phase, 0.0) for phase in PHASES[: PHASES.index("rendezvous")])

    last = max(ranks, key=came_after_s)
    return last, came_after_s(last)


def job_s(ranks: Sequence[RankBringup]) -> float:
    """From the first rank's start to the last rank's result, by the hosts' clocks of the day."""
    return max(r.ended_unix_s for r in ranks) - min(r.started_unix_s for r in ranks)


def theil_sen(values: Sequence[float]) -> float:
    """The median of the slopes between all pairs of ``values``, which are one step apart.

    Up to 29 % of them may be anything. Of long series every n-th value is looked at.
    """
    import numpy as np

    step = max(1, -(-len(values) // _MOST_SAMPLES))
    points = np.asarray(values[::step], dtype=float)
    if len(points) < 2 or np.ptp(points) == 0.0:
        return 0.0
    first, second = np.triu_indices(len(points), k=1)
    return float(np.median((points[second] - points[first]) / ((second - first) * step)))


def warm_up(times: int) -> int:
    """Communicators that do not count: pools fill and libraries load with the first ones."""
    return max(5, times // 10)


def growths(bringup: Bringup) -> list[Growth]:
    """For each resource the rank with the largest growth; empty when too few communicators were made."""
    return [
        max(rows, key=lambda g: (g.grows, g.per_communicator)) for rows in _by_resource(bringup)
    ]


def _by_resource(bringup: Bringup) -> list[list[Growth]]:
    found = []
    for resource in RESOURCES:
        rows = [g for rank in bringup.ranks if (g := _growth(rank, resource)) is not None]
        if rows:
            found.append(rows)
    return found


def _growth(rank: RankBringup, resource: str) -> Growth | None:
    repeated = rank.repeated
    if repeated is None or resource not in repeated.usage:
        return None
    counted = repeated.usage[resource][warm_up(len(repeated.create_s)) :]
    if len(counted) <= LEAST_COUNTED:
        return None
    middle = len(counted) // 2
    return Growth(
        resource,
        rank.rank,
        rank.host,
        theil_sen(counted),
        min(theil_sen(counted[: middle + 1]), theil_sen(counted[middle:])),
        counted[-1] - counted[0],
    )


def growth_findings(bringup: Bringup) -> list[Finding]:
    """One for each resource that grows on any rank."""
    findings = []
    for rows in _by_resource(bringup):
        worst = sorted((g for g in rows if g.grows), key=lambda g: -g.per_communicator)
        if worst:
            resource = worst[0].resource
            findings.append(
                Finding(
                    code="COMMUNICATOR_GROWTH",
                    severity=Severity.ERROR,
                    evidence=tuple(
                        f"rank {g.rank} on {g.host}: {amount(resource, g.per_communicator)} "
                        f"{WORDS[resource]} more with each communicator, at most "
                        f"{amount(resource, TOLERANCE[resource])} allowed; "
                        f"{amount(resource, g.whole)} after warm-up"
                        for g in worst[:4]
                    ),
                    fix=_FIXES[resource],
                    ranks=tuple(sorted(g.rank for g in worst)),
                )
            )
    return findings


def judged(bringup: Bringup) -> tuple[str, str] | None:
    """``pass``, ``growth`` or ``no_verdict`` on the communicators, and why; None when none were made."""
    made = [len(rank.repeated.create_s) for rank in bringup.ranks if rank.repeated is not None]
    if not made:
        return None
    rows = growths(bringup)
    if not rows:
        least = next(n for n in range(made[0], made[0] + 100) if n - warm_up(n) >= LEAST_COUNTED)
        return "no_verdict", f"{made[0]} communicators are too few, {least} say something"
    grown = [WORDS[g.resource] for g in rows if g.grows]
    if grown:
        return "growth", f"{' and '.join(grown)} grow with each communicator"
    return "pass", f"nothing grows over {made[0]} communicators"


def amount(resource: str, value: float) -> str:
    """``value`` of ``resource`` with its unit: ``2.1 KiB``, ``0.05``."""
    if not resource.endswith("_bytes"):
        return f"{value:.3g}"
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"


WORDS = {
    "device_bytes": "GPU memory",
    "rss_bytes": "host memory",
    "fds": "file descriptors",
    "threads": "threads",
}

_FIXES = {
    "device_bytes": "make groups once and keep them; see whether another process shares the GPU, then "
    "whether another NCCL version does the same",
    "rss_bytes": "make groups once and keep them; see whether another torch or NCCL version does the same",
    "fds": "make groups once and keep them; `ls -l /proc/PID/fd` says what stays open",
    "threads": "make groups once and keep them; `ps -T -p PID` names what stays",
}
