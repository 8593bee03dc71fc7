"""How the parts of an all_to_all_v differ: from a short name to elements for every pair of ranks.

    linear         to rank + k goes k times as much, nothing to itself: nccl-tests' generated pattern
    hot:F          every rank sends the share F (0 to 1) to rank 0, the rest in equal parts to the others
    random:SEED    a random weight for every pair, the same for the same seed
    matrix:1 2/3 4 rows of senders, columns of receivers, to scale (what a file of nccl-tests' form becomes)

A name gives the shape only. It is scaled so that the rank that sends or receives most has exactly the size of
the point: nccl-tests' size, and what its algbw and busbw are of. Every rank's parts lie one behind the other
in rank order, in the send as in the receive buffer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from clusterlab.core.errors import UsageError

Matrix = tuple[tuple[int, ...], ...]
"""``matrix[i][j]``: from rank i to rank j."""

MOST_IN_A_MATRIX = 64
"""Ranks: the matrix stands in every row of the records."""

_LARGEST = 10**24
_WORDS = "linear, hot:F with F from 0 to 1, random:SEED, or a file with a matrix"


def uneven_name(text: str) -> str:
    """``text`` in the one way that it is kept. Raises UsageError for a name that means nothing."""
    kind, _, value = text.strip().partition(":")
    kind = kind.lower()
    if kind == "linear" and not value:
        return "linear"
    if kind == "hot" and (share := _number(value)) is not None and 0 <= share <= 1:
        return f"hot:{share:.12g}"
    if kind == "random" and value.isascii() and value.isdigit() and len(value) < 20:
        return f"random:{int(value)}"
    if kind == "matrix":
        return matrix_name(_matrix_of(value))
    raise UsageError(f"{text!r:.60}", where="--uneven", expected=_WORDS)


def matrix_name(rows: Sequence[Sequence[int]]) -> str:
    """The name of a matrix's shape: its numbers without their common divisor. Raises UsageError."""
    n = len(rows)
    if not 1 <= n <= MOST_IN_A_MATRIX or any(len(row) != n for row in rows):
        raise UsageError(
            f"a matrix of {n} rows of {sorted({len(row) for row in rows})} numbers",
            where="--uneven",
            expected=f"a square of at most {MOST_IN_A_MATRIX} ranks",
        )
    numbers = [number for row in rows for number in row]
    if not all(0 <= number <= _LARGEST for number in numbers) or not any(numbers):
        raise UsageError(
            "a number that is too large, below 0, or all 0", where="--uneven", expected="bytes"
        )
    common = math.gcd(*numbers)
    return "matrix:" + "/".join(" ".join(str(number // common) for number in row) for row in rows)


def parts_of(uneven: str | None, world_size: int, elements: int) -> Matrix:
    """The same also of None: equal parts, of an ``elements`` that the ranks divide."""
    if uneven is None:
        return ((elements // world_size,) * world_size,) * world_size
    return parts(uneven, world_size, elements)


def check_uneven(uneven: str, world_size: int) -> None:
    """Raises UsageError where ``uneven`` (a name as kept) has nothing to send among so many ranks."""
    if uneven.startswith("matrix:"):
        ranks = len(_matrix_of(uneven.removeprefix("matrix:")))
        if ranks < world_size:
            raise UsageError(
                f"a matrix of {ranks} ranks for {world_size}",
                where="--uneven",
                expected=f"at least {world_size} rows and columns",
            )
    if not any(map(any, _weights(uneven, world_size))):
        raise UsageError(
            f"{uneven:.60} sends nothing among {world_size} ranks", where="--uneven",
            expected="something to send",
        )  # fmt: skip


@lru_cache(maxsize=64)
def parts(uneven: str, world_size: int, elements: int) -> Matrix:
    """Elements from every rank to every rank; the most that any sends or receives is ``elements``.

    Exactly so many, and no part is further than one element from its share. Raises as ``check_uneven``.
    """
    check_uneven(uneven, world_size)
    weights = _weights(uneven, world_size)
    most = max(_sums(weights))
    counts = [[w * elements // most for w in row] for row in weights]
    lost = [[w * elements % most for w in row] for row in weights]
    busiest = _sums(weights).index(most)
    wanted = [sum(row) * elements // most for row in weights]
    _give_back(counts, lost, busiest, wanted, elements)
    return tuple(tuple(row) for row in counts)


def _give_back(
    counts: list[list[int]],
    lost: Sequence[Sequence[int]],
    busiest: int,
    wanted: Sequence[int],
    most: int,
) -> None:
    """Give what rounding down took, at most one element a part: first to the ``busiest`` line (a row, or n
    and a column), so that it has ``most``, then to the rows, up to ``wanted``, while nobody has more.

    The busiest can always be filled: another line whose share is less than ``most`` has a whole element of
    room after rounding down, and so has one of just as much that lost anything.
    """
    n = len(counts)
    room = [most - total for total in _sums(counts)]

    def fill(cells: list[tuple[int, int]], missing: int) -> None:
        # largest remainder first; then by distance, so that what is alike for all ranks stays so
        cells.sort(key=lambda c: (-lost[c[0]][c[1]], (c[1] - c[0]) % n))
        for i, j in cells:
            if missing > 0 and lost[i][j] and room[i] > 0 and room[n + j] > 0:
                counts[i][j] += 1
                room[i] -= 1
                room[n + j] -= 1
                missing -= 1

    fill([(i, j) for i in range(n) for j in range(n) if busiest in (i, n + j)], room[busiest])
    filled = busiest if busiest < n else None
    for i in range(n):
        free = [(i, j) for j in range(n) if n + j != busiest]
        if i != filled:
            fill(free, wanted[i] - sum(counts[i]))


def _sums(matrix: Sequence[Sequence[int]]) -> list[int]:
    """Of every row, then of every column."""
    return [*map(sum, matrix), *map(sum, zip(*matrix, strict=True))]


def _weights(uneven: str, n: int) -> Matrix:
    kind, _, value = uneven.partition(":")
    return _SHAPES[kind](value, n)


def _linear(_value: str, n: int) -> Matrix:
    if n == 1:
        return ((1,),)
    return tuple(tuple((j - i) % n for j in range(n)) for i in range(n))


def _hot(value: str, n: int) -> Matrix:
    if n == 1:
        return ((1,),)
    share = Fraction(value)
    first, others = share * (n - 1) * share.denominator, (1 - share) * share.denominator
    return ((int(first), *(n - 1) * (int(others),)),) * n


def _random(value: str, n: int) -> Matrix:
    draw = random.Random(int(value))  # random() is the same in every Python
    return tuple(tuple(1 + int(draw.random() * 1000) for _ in range(n)) for _ in range(n))


def _given(value: str, n: int) -> Matrix:
    return tuple(row[:n] for row in _matrix_of(value)[:n])


_SHAPES: dict[str, Callable[[str, int], Matrix]] = {
    "linear": _linear,
    "hot": _hot,
    "random": _random,
    "matrix": _given,
}


def _matrix_of(value: str) -> Matrix:
    try:
        return tuple(tuple(int(word) for word in row.split()) for row in value.split("/"))
    except ValueError:
        raise UsageError(
            f"{value!r:.60}", where="--uneven", expected="whole numbers, rows parted by /"
        ) from None


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
