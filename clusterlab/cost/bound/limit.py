"""One argument's answer: no byte takes less than this, because of that."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """No less than ``us_per_byte`` of nccl-tests' size, because of ``reason``."""

    us_per_byte: float
    reason: str

    @classmethod
    def across(cls, share: float, GBps: float, reason: str) -> Limit:
        """``share`` of the size over ``GBps`` in all: infinite over none, nothing over an unknown rate."""
        if GBps <= 0:
            return cls(math.inf, reason)
        if math.isinf(GBps):
            return cls(0.0, reason)
        return cls(share / (GBps * 1e3), f"{reason}, {GBps:.5g} GB/s")
