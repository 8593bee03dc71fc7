"""What is seen of a run while it runs: plain data for the terminal, for scripts and for a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.core.rows import Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.run_info import Attempt


class State(StrEnum):
    """Where a run stands. ``silent``: no sign of life, not yet for so long that it counts as dead."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    SILENT = "silent"
    DEAD = "dead"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Left:
    """Time that is left, in seconds; ``at_least`` where larger points than any so far are to come,
    ``at_most`` where a budget ends it.
    """

    seconds: float
    at_least: bool = False
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Slowest:
    """The rank that was the slowest of most points: of how many of how many, and how much slower it was there
    than the median rank (median of the ratio, 1.05: 5 %; None: not known).
    """

    rank: int
    host: str | None
    times: int
    of: int
    ratio: float | None


@dataclass(frozen=True, slots=True)
class SeenRow:
    """A row and what its own interval says of it; ``reason`` in words."""

    row: Row
    verdict: Verdict
    reason: str


Record = SeenRow | StepLine | SoakPass | Overlap


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as it is now. ``done`` of ``planned`` (None: not known) ``unit``; ``counts`` are of points with
    each verdict, ``new`` what came since the look before, ``last`` the latest of all, oldest first.
    ``tables`` are lines of what a run holds beside its records.
    """

    run_id: str
    name: str
    path: str
    kind: str
    state: State
    said: str
    exit_code: int | None = None
    attempts: tuple[Attempt, ...] = ()
    done: int = 0
    planned: int | None = None
    unit: str = "points"
    left: Left | None = None
    in_flight: str = ""
    counts: Mapping[Verdict, int] = field(default_factory=dict)
    wrong: int = 0
    slowest: Slowest | None = None
    new: tuple[Record, ...] = ()
    last: tuple[Record, ...] = ()
    notes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it by itself."""
        return self.state in (State.ENDED, State.DEAD)
