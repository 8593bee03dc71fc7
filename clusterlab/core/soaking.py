"""One pass of a soak: the words of soak.jsonl."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SoakPass:
    """What one point took in one pass. ``number`` counts the passes of an attempt from 1.

    ``elapsed_s``: from the start of the soak's first attempt to the end of this pass. Times as in a row.
    """

    number: int
    attempt: int
    elapsed_s: float
    time_utc: str
    collective: str
    dtype: str
    op: str | None
    in_place: bool
    requested_bytes: int
    size_bytes: int
    iterations: int
    time_us_loop: float
    time_us_p50: float
    time_us_min: float
    time_us_max: float
    time_us_p95: float
    wrong: int | None
    gpu_clock_mhz: float | None
    gpu_temp_c: float | None
    throttled: str | None

    @property
    def key(self) -> tuple[str, str, str | None, bool, int]:
        """Which series it belongs to."""
        return self.collective, self.dtype, self.op, self.in_place, self.requested_bytes

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)
