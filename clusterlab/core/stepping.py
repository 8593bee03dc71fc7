"""Training steps: what a rank's ledger holds of one, and the words of steps.jsonl."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

P2P = ("send", "recv")
"""Both sides of a message, an entry each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective of one step as one rank made it. Times are from the step's begin.

    ``waited_us``: when the rank had nothing else to do and waited for it, until ``end_us``; None where
    nobody noted it. Until ``issued_us`` the host made the call and did nothing else.

    ``at_most``: it took no longer than from start to end, and perhaps less: nothing told when it was done
    before somebody looked, another call along the axis was still under way when it began, or it is a message,
    which is posted ahead of the other side.
    """

    step: int
    op: str
    axis: str
    ranks: tuple[int, ...]
    size_bytes: int
    dtype: str
    phase: str
    micro_batch: int | None
    start_us: float
    end_us: float
    waited_us: float | None = None
    issued_us: float | None = None
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Work between two instants of a step, in µs from its begin: ``forward``, ``backward``, ``data`` …"""

    step: int
    name: str
    micro_batch: int | None
    start_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class StepLedger:
    """One rank's ledger of one step. ``began_us``: its begin by a clock that all ranks share."""

    rank: int
    host: str
    attempt: int
    step: int
    began_us: float
    spans: tuple[Span, ...]
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class StepLine:
    """One training step. ``step_us`` is the slowest rank's; the parts are means over the ranks and add up
    to it, ``other_us`` with what the rest waited for the slowest.

    ``exposed_us``: communication that nothing hid, by axis. ``memory_bytes``: the most that a rank held, of
    its GPU or of the host. ``loss`` null: not finite. ``predicted_us``: what a step should take, said
    before the first.
    """

    step: int
    attempt: int
    time_utc: str
    loss: float | None
    step_us: float
    slowest_rank: int
    data_us: float
    forward_us: float
    backward_us: float
    exposed_us: Mapping[str, float]
    bubble_us: float
    optimizer_us: float
    other_us: float
    memory_bytes: int
    collectives: int
    predicted_us: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class CollectiveSummary:
    """One kind of collective on one rank. ``count`` and the sums ``exposed_us`` and ``hidden_us`` are of a
    step; ``time_us`` is the median of one call, from when it began to when it was done; ``at_most``
    where that is so of any (see Entry).

    ``predicted_us``: what a call alone should take, where something predicts it. Where routing gives calls
    different sizes ``size_bytes`` is their mean, from ``least_bytes`` to ``most_bytes``.
    """

    op: str
    axis: str
    ranks: int
    size_bytes: int
    dtype: str
    phase: str
    count: float
    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    exposed_us: float
    hidden_us: float
    predicted_us: float | None = None
    at_most: bool = False
    least_bytes: int | None = None
    most_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ExpertLoad:
    """What the router of a step chose, over all ranks, blocks and micro-batches.

    ``tokens``: choices that each expert took; ``dropped``: those beyond its capacity. ``cv``: standard
    deviation of the experts' tokens over their mean; ``overload``: of the busiest rank over an even share;
    ``entropy``: of the experts' shares, 1 when even. ``rows_bytes``: rows from each rank of ``ep`` (row) to
    each rank's experts (column) in forward, groups along ``ep`` added up; what a rank keeps is on the
    diagonal. On two levels they travel otherwise.
    """

    step: int
    attempt: int
    tokens: tuple[int, ...]
    dropped: int
    cv: float
    overload: float
    entropy: float
    rows_bytes: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)
