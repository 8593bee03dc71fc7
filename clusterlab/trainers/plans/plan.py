"""A plan: what one rank does in one step. The cost room prices it, the torch half executes exactly it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One kind of collective, ``count`` times a step. Bytes as in the ledger (nccl-tests' convention).

    ``hidden``: it runs beside computation and may cost nothing. ``why`` in a few words.
    """

    op: str
    axis: str
    ranks: tuple[int, ...]
    size_bytes: int
    dtype: str
    phase: str
    count: int
    hidden: bool
    why: str


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of one rank, by what they are."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.parameters + self.gradients + self.optimizer + self.activations


@dataclass(frozen=True, slots=True)
class Plan:
    """One rank's step. ``flops`` of its matrix products, forward and backward."""

    rank: int
    calls: tuple[PlannedCall, ...]
    flops: float
    memory: Memory


CallKey = tuple[str, str, tuple[int, ...], int, str, str]
"""op, axis, ranks, size_bytes, dtype, phase."""


def counted(calls: Iterable[PlannedCall]) -> Counter[CallKey]:
    """How often each call is made, in the form that a step's ledger is counted in."""
    found: Counter[CallKey] = Counter()
    for call in calls:
        found[call.op, call.axis, call.ranks, call.size_bytes, call.dtype, call.phase] += call.count
    return found
