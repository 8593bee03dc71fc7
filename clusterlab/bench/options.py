"""How points are measured: the few choices a user makes."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown

TIMING_MODES: tuple[str, ...] = ("eager",)
"""``eager``: one torch.distributed call after the other, which is what a training loop feels."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How each point is measured; nccl-tests' flag in brackets.

    ``iterations`` (-n) and ``warmup`` (-w) are calls per point; the per-iteration pass makes as many
    calls again. ``check`` (-c) verifies one call's data. ``deadline_s`` (-T) is the longest one point
    may take; 0 means none. ``timing`` is one of TIMING_MODES.

    ``corrupt`` is for tests only: (rank, index) of one received element that is overwritten between
    the checked call and the check, to prove that the check sees it.
    """

    iterations: int = 20
    warmup: int = 5
    check: bool = True
    deadline_s: float = 600.0
    timing: str = "eager"
    corrupt: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise UsageError(f"{self.iterations}", where="iterations", expected="at least 1")
        if self.warmup < 0:
            raise UsageError(f"{self.warmup}", where="warmup", expected="0 or more")
        if not 0 <= self.deadline_s < 1e9:
            raise UsageError(
                f"{self.deadline_s:g}", where="deadline_s", expected="0 or more seconds"
            )
        if self.timing not in TIMING_MODES:
            raise unknown("timing mode", self.timing, TIMING_MODES)
