"""What goes into a trend and what comes out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from clusterlab.verdict.against.changes import Change, What
from clusterlab.verdict.against.side import Timed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Places = NDArray[np.int64]

Key = tuple[str, str | None, str]
"""Of a cell: collective, timing, band."""


@dataclass(frozen=True, slots=True)
class Once:
    """One run. ``facts``: what may differ between runs of one kind (versions, the hash of the fabric)."""

    name: str
    time_s: int
    hosts: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """One point over the runs ``at`` (places in their list, ascending). ``point`` says what it is; its own
    times mean nothing. ``times_us`` are medians over iterations, or loops where ``loops``. NaN: no time.
    """

    point: Timed
    at: Places
    times_us: Numbers
    steady: NDArray[np.bool_]
    loops: bool


@dataclass(slots=True)
class Part:
    """A cell while it is worked on: its series, its runs in order, their paces (log ratios to the cell's
    median), and where each stretch after a step begins.
    """

    members: list[int]
    runs: Places
    paces: Numbers
    starts: list[int] = field(default_factory=list)

    def stretches(self) -> list[tuple[int, int]]:
        """From step to step: first run, and the one after the last."""
        edges = [0, *self.starts, len(self.paces)]
        return [(low, high) for low, high in pairwise(edges) if low < high]

    def levels(self) -> Numbers:
        """The median pace of each run's stretch."""
        import numpy as np

        levels = np.zeros(len(self.paces))
        for low, high in self.stretches():
            levels[low:high] = np.median(self.paces[low:high])
        return levels


@dataclass(frozen=True, slots=True)
class Window:
    """Runs ``first`` to ``last`` (places, both included)."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Node:
    """A host in the runs since a step: how they differ from those without it (time ratio, 95 %)."""

    host: str
    runs: int
    without: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Nodes:
    """``slow``: hosts whose runs are slower (faster, of an improvement) than those without them by more than
    chance explains. ``others_as_before``: the runs without any of them are as they were before the step.
    ``why``: why no host can be named.
    """

    slow: tuple[Node, ...] = ()
    others_as_before: bool = False
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """A change that lasts: the first run with it is ``at``, the last one without ``last_before``. ``change``
    is of the runs after it, up to the next shift, against those before. ``tested``: the series alone proves
    a step (verdict/series.py); else it is where the recent runs part from those before. ``differs``: what was
    otherwise in the runs after it.
    """

    at: int
    last_before: int
    change: Change
    tested: bool
    differs: tuple[str, ...]
    nodes: Nodes


@dataclass(frozen=True, slots=True)
class Cell:
    """One collective, called in one way, in one band of sizes. ``series`` are its members' places, ``runs``
    those that measured it. ``change`` is of the runs ``recent`` against those ``before`` (None: there are
    none).
    """

    collective: str
    timing: str | None
    band: str
    series: tuple[int, ...]
    runs: int
    change: Change
    before: Window | None
    recent: Window
    shifts: tuple[Shift, ...]


@dataclass(frozen=True, slots=True)
class Alone:
    """A series that is far slower in the recent runs although its cell is not: a link, a group, one size.
    ``ratio`` is of times, ``at`` the first run with it.
    """

    series: int
    ratio: float
    at: int


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A host whose last ``runs`` runs are slower in a cell than the ``without`` runs without it (time ratio,
    95 %): since the run ``since``, ``last_before`` being its last run without; None: in all its runs.
    """

    host: str
    cell: Key
    ratio: float
    low: float
    high: float
    runs: int
    without: int
    since: int | None
    last_before: int | None


@dataclass(frozen=True, slots=True)
class Trend:
    """Runs of one kind of machine. ``together``: all collectives of a band. ``noise`` says by band how far
    runs differ by themselves, in words.
    """

    cells: tuple[Cell, ...]
    together: tuple[Change, ...]
    alone: tuple[Alone, ...]
    nodes: tuple[SlowNode, ...]
    noise: Mapping[str, str]

    @property
    def what(self) -> What:
        """The gravest of what the recent runs say."""
        said = [change.what for change in (*(cell.change for cell in self.cells), *self.together)]
        if self.alone or self.nodes:
            return What.REGRESSION
        order = (What.REGRESSION, What.IMPROVEMENT, What.SAME)
        return next((what for what in order if what in said), What.NO_VERDICT)
