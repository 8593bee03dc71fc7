"""Test data for every rank, and what a collective must make of it.

Every rank sends a table of PERIOD values over and over, so that data and expectation cost as much for
1 KiB as for 1 GiB. PERIOD is prime: whatever lands in a wrong place is seen, unless it is off by an
exact multiple of PERIOD elements.

- Data that is only moved must arrive exactly, in any dtype.
- Integers are chosen so that no partial result overflows, in any order: reductions are exact.
- Floats use every bit of the mantissa, so that a library which reduces in a narrower type than it says
  is seen. Their reductions are held to the bound of rounding.py; min and max are exact.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from clusterlab.bench.rounding import (
    FLOAT64_UNIT,
    contributors,
    growth,
    largest_avg_base,
    roundings,
)
from clusterlab.core.dtypes import DTYPES, Dtype

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    Floats = npt.NDArray[np.float64]
    Integers = npt.NDArray[np.int64]
    Bits = npt.NDArray[np.uint64]

PERIOD = 16381
"""The largest prime below 2^14."""

_LARGEST_INT = 1 << 30  # int64 data stays this small, so that int64 holds every sum
_LARGEST_AVG_SHIFT = (
    6  # avg data is scaled up to keep x/n a normal number; 2^6 * 4 still fits in fp8
)

_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True, slots=True)
class Expected:
    """What one period of a buffer must hold.

    Exact: ``values`` has the dtype itself and ``tolerance`` is None. Bounded: both are float64 and
    |got - values| <= tolerance must hold.
    """

    values: torch.Tensor
    tolerance: torch.Tensor | None = None


@lru_cache(maxsize=16)
def sent(rank: int, world_size: int, dtype: str, op: str | None) -> torch.Tensor:
    """One period of what ``rank`` sends; ``op`` is None when the collective does not reduce."""
    kind = DTYPES[dtype]
    if kind.kind == "int":
        return _tensor(_integers(rank, world_size, kind, op), dtype)
    return _tensor(_floats(rank, world_size, kind, op), dtype)


@lru_cache(maxsize=4)
def reduced(world_size: int, dtype: str, op: str) -> Expected:
    """One period of the reduction of all ranks' data with ``op``, computed without any collective."""
    kind = DTYPES[dtype]
    if kind.kind == "int":
        return Expected(_tensor(_reduced_integers(world_size, kind, op), dtype))
    if op in ("min", "max"):
        everyone = (_floats(rank, world_size, kind, op) for rank in range(world_size))
        return Expected(_tensor(functools.reduce(_COMBINE[op], everyone), dtype))
    return _reduced_floats(world_size, kind, op)


def _reduced_floats(n: int, kind: Dtype, op: str) -> Expected:
    """sum, avg or prod in float64, and how far a rank's result may be from it."""
    import torch

    total = np.full(PERIOD, 1.0 if op == "prod" else 0.0)
    scale = np.zeros(PERIOD)  # sum|x_r|, what the error of a sum is relative to
    for rank in range(n):
        values = _floats(rank, n, kind, op)
        total = _COMBINE[op](total, values)
        scale += np.abs(values)
    if op == "prod":
        scale = np.abs(total)
    if op == "avg":
        total /= n
        scale /= n
    count = roundings(contributors(n, kind, op), op)
    error = growth(kind.epsilon / 2, count) + growth(FLOAT64_UNIT, count)
    return Expected(torch.from_numpy(total), torch.from_numpy(scale * error))


def _floats(rank: int, n: int, kind: Dtype, op: str | None) -> Floats:
    """Values that ``kind`` represents, in float64: random sign, magnitude in [1, 2), prod [1.5, 2)."""
    bits = _hash(rank)
    mantissa_bits = round(-math.log2(kind.epsilon))
    mantissa = (bits >> np.uint64(64 - mantissa_bits)).astype(np.float64)
    if op == "prod":
        half = 2.0 ** (mantissa_bits - 1)
        mantissa = half + np.fmod(mantissa, half)
    magnitude = 1.0 + mantissa * kind.epsilon
    if op == "avg":
        magnitude *= 2.0 ** min(_LARGEST_AVG_SHIFT, math.ceil(math.log2(n)))
    values = np.where(bits & np.uint64(1), -magnitude, magnitude)
    return np.where(_contributes(rank, n, kind, op), values, 1.0 if op == "prod" else 0.0)


def _integers(rank: int, n: int, kind: Dtype, op: str | None) -> Integers:
    """Values of ``kind``, in int64, none of them 0 but for idle ranks of a sum."""
    if op == "avg":
        base, difference = _avg_parts(n, kind)
        if rank == n - 1 and rank % 2 == 0:
            return base
        return base - difference if rank % 2 else base + difference
    bits = _hash(rank)
    lowest, choices = 1, min(_LARGEST_INT, kind.max_exact_int - 1)
    if op == "prod":
        lowest, choices = 2, 2
    if op == "sum":
        choices = min(_LARGEST_INT, (kind.max_exact_int - 1) // contributors(n, kind, op))
    magnitude = lowest + _below(bits, choices)
    negative = (bits & np.uint64(1)).astype(bool) & (not kind.name.startswith("u"))
    values = np.where(negative, -magnitude, magnitude)
    return np.where(_contributes(rank, n, kind, op), values, 1 if op == "prod" else 0)


def _reduced_integers(n: int, kind: Dtype, op: str) -> Integers:
    if op == "avg":
        return _avg_parts(n, kind)[0]
    everyone = (_integers(rank, n, kind, op) for rank in range(n))
    return functools.reduce(_COMBINE[op], everyone)


def _avg_parts(n: int, kind: Dtype) -> tuple[Integers, Integers]:
    """base and difference: ranks send base + d and base - d in turn, a last odd one base.

    Everything is positive and the sum is n * base, so the average is base however a library divides.
    Not for ``avg_overflows``.
    """
    bits = _hash(-1)
    base = 1 + _below(bits, min(_LARGEST_INT, largest_avg_base(n, kind)))
    return base, (bits & np.uint64(0xFFFF)).astype(np.int64) % base


def _contributes(rank: int, n: int, kind: Dtype, op: str | None) -> npt.NDArray[np.bool_]:
    """At which indices ``rank`` sends a value of its own rather than the identity of ``op``."""
    if op in (None, "min", "max"):
        return np.ones(PERIOD, dtype=bool)
    first = _below(_hash(-2), n)
    return (rank - first) % n < contributors(n, kind, op or "sum")


def _below(bits: Bits, choices: int) -> Integers:
    """Random integers from 0 to choices - 1 (choices up to 2^31)."""
    return (bits >> np.uint64(33)).astype(np.int64) % choices


def _tensor(values: Floats | Integers, dtype: str) -> torch.Tensor:
    import torch

    return torch.from_numpy(values).to(getattr(torch, dtype))


def _hash(stream: int) -> Bits:
    """One period of random bits, a different one for each ``stream`` (splitmix64's finaliser)."""
    x = np.arange(PERIOD, dtype=np.uint64) + np.uint64((stream + 2) * PERIOD)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
