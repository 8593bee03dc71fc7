"""A traffic matrix as nccl-tests' alltoallv reads it (NCCL_TESTS_ALLTOALLV_MATRIX_FILE).

Numbers of bytes, parted by white space, one line for each sender, a number for each receiver: square, none
below 0. nccl-tests rounds each down to 16 bytes; here they are a shape that is scaled to the size.
"""

from __future__ import annotations

import math
from fractions import Fraction

from clusterlab.core.errors import UsageError
from clusterlab.core.uneven import Matrix


def read_traffic_matrix(text: str, *, where: str) -> Matrix:
    """The matrix in whole numbers of the same proportions. Raises UsageError naming line and column."""
    rows: list[list[Fraction]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        rows.append(
            [
                _number(w, f"{where}: line {number}, number {i}")
                for i, w in enumerate(words, start=1)
            ]
        )
        if len(rows[-1]) != len(rows[0]):
            raise UsageError(
                f"{len(words)} numbers", where=f"{where}: line {number}",
                expected=f"{len(rows[0])}, as in the first line",
            )  # fmt: skip
    if not rows or len(rows) != len(rows[0]):
        shape = f"{len(rows)} lines of {len(rows[0])} numbers" if rows else "nothing"
        raise UsageError(shape, where=where, expected="as many lines as numbers in each")
    scale = math.lcm(*(value.denominator for row in rows for value in row))
    return tuple(tuple(int(value * scale) for value in row) for row in rows)


def _number(word: str, where: str) -> Fraction:
    try:
        about = float(word)
    except ValueError:
        about = -1.0
    # by the float first: 1e999999999 as a fraction would fill the memory
    if about != 0 and not _LEAST <= about <= _MOST:
        raise UsageError(f"{word!r:.40}", where=where, expected="bytes, 0 or more")
    return Fraction(about).limit_denominator(10**6)


_LEAST, _MOST = 1e-6, 1e15
