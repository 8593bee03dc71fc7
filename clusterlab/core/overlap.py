"""What two things at once take: the words of a collective beside compute or beside another collective."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

COMPUTE = "compute"
"""What ``Point.beside`` says when matrix products run at the same time."""

MATMUL_SIDES = (32, 16384)
"""The least and the largest side of the square matrices that are multiplied."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A median and the interval that holds it with 95 %."""

    value: float
    low: float
    high: float


FIGURES = (
    "alone_us",
    "other_alone_us",
    "both_us",
    "beside_us",
    "other_beside_us",
    "slowdown",
    "other_slowdown",
    "efficiency",
    "exposed_us",
)
"""The fields of an Overlap that are a Figure."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """A collective and what ran beside it, at one size. Times in µs, each round's slowest rank.

    ``alone_us`` and ``other_alone_us``: each on its own; ``both_us``: started together, until both are
    done; ``beside_us`` and ``other_beside_us``: each one's own time in that. ``slowdown`` is a time beside
    over the time alone. ``efficiency`` is (alone + other alone - both) over the shorter of the two: 1 when
    the shorter is hidden wholly, 0 when nothing is, below 0 when both take longer than one after the other.
    ``exposed_us`` is both less the other alone: what the collective costs.

    ``calls`` of each are made in a round, times are for one. ``compute`` says what was computed. ``wrong``
    and ``other_wrong`` count wrong elements after a call of both at once; None: not checked. ``max_ctas``
    limits NCCL's thread blocks; None: NCCL chooses.
    """

    collective: str
    beside: str
    dtype: str
    op: str | None
    size_bytes: int
    requested_bytes: int
    world_size: int
    backend: str
    rounds: int
    calls: int
    compute: str | None
    alone_us: Figure
    other_alone_us: Figure
    both_us: Figure
    beside_us: Figure
    other_beside_us: Figure
    slowdown: Figure
    other_slowdown: Figure
    efficiency: Figure
    exposed_us: Figure
    wrong: int | None
    other_wrong: int | None
    max_ctas: int | None
    attempt: int
    time_utc: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What makes two the same measurement."""
        return self.collective, self.beside, self.dtype, self.requested_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)
