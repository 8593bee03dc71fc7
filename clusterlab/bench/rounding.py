"""How far a floating-point reduction may be from the exact result, and data for which that is useful.

A reduction of k numbers x_r by k-1 operations, each rounded to the dtype (relative error at most
u = epsilon/2), in any order and grouping, satisfies

    sum:   |result - exact| <= ((1+u)^(k-1) - 1) * sum|x_r|
    prod:  |result - exact| <= ((1+u)^(k-1) - 1) * |exact|
    avg:   as sum, over n, with two roundings more (1/n, and the product with it)

since each x_r passes at most k-1 roundings, each a factor 1+d with |d| <= u (Higham, Accuracy and
Stability of Numerical Algorithms, section 4.2). Accumulating in a wider type only lowers the error.
min and max do not round.

A bound is only worth having if it is smaller than what it must catch: summing 64 bfloat16 numbers may
be off by more than one of them. So at most ``contributors`` ranks give a value of their own at each
index, and the others the operation's identity (0, or 1 for prod), which adds no error. That number is
the largest for which one contribution that is missing or counted twice always lies outside the bound.
"""

from __future__ import annotations

import math

from clusterlab.core.dtypes import Dtype

FLOAT64_UNIT = 2.0**-53
"""Rounding of one float64 operation, for the reference's own error."""

LARGEST_EXPONENT = {
    "float16": 15,
    "bfloat16": 127,
    "float32": 127,
    "float64": 1023,
    "float8_e4m3fn": 8,
    "float8_e5m2": 15,
}
"""The largest power of two that each float type represents."""


def growth(unit: float, count: int) -> float:
    """(1+unit)^count - 1: the largest relative error of ``count`` roundings, each at most ``unit``."""
    return math.expm1(count * math.log1p(unit))


def roundings(k: int, op: str) -> int:
    """Roundings that one contribution passes when ``k`` contribute to a float reduction."""
    return k - 1 + (2 if op == "avg" else 0)


def contributors(world_size: int, kind: Dtype, op: str) -> int:
    """How many ranks give a value of their own at each index of a reduction with ``op``."""
    if op in ("min", "max"):
        return world_size
    if kind.kind == "int":
        return min(world_size, _integer_contributors(kind, op))
    k = 1
    while k < world_size and _one_more_shows(k + 1, kind, op):
        k += 1
    return k


def _one_more_shows(k: int, kind: Dtype, op: str) -> bool:
    """Whether one contribution more or less than ``k`` always lies outside the bound.

    The wrong result is rounded too, so it must differ by more than twice the bound. sum and avg: the
    magnitudes lie in [1, 2), so the bound is below growth * 2k and a contribution is at least 1. prod:
    they lie in [1.5, 2), so one factor changes the product by at least a third, and 2^k must not
    overflow.
    """
    error = growth(kind.epsilon / 2, roundings(k, op))
    if op == "prod":
        return 2 * error < 1 / 3 and k < LARGEST_EXPONENT[kind.name]
    return 2 * error * 2 * k < 1


def largest_avg_base(world_size: int, kind: Dtype) -> int:
    """The largest average of ``world_size`` integers whose sum never overflows; 0: there is none.

    One more than the ranks, because a partial sum may be ahead of its share by one value.
    """
    return (kind.max_exact_int - 1) // (world_size + 1)


def avg_overflows(world_size: int, kind: Dtype) -> bool:
    """Whether summing one positive integer per rank passes the dtype's largest."""
    return kind.kind == "int" and largest_avg_base(world_size, kind) < 1


def _integer_contributors(kind: Dtype, op: str) -> int:
    """So many that no partial result passes the largest integer, in any order."""
    largest = kind.max_exact_int - 1  # the largest itself marks what was never written: check.py
    if op == "prod":
        k = 0
        while 3 ** (k + 1) <= largest:  # the factors are 2 and 3
            k += 1
        return k
    return largest // 4  # sum: at least four magnitudes to tell apart
