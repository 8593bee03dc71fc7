"""Numbers and numbered names as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIGITS = re.compile(r"([0-9]{1,18})")


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """A key that sorts the numbers in names as numbers: n2 before n10."""
    return tuple(
        (0, int(part)) if i % 2 else (1, part) for i, part in enumerate(_DIGITS.split(name))
    )


def number_list(numbers: Iterable[int]) -> str:
    """``0-3,8``: CPUs, ranks or the like, as the kernel writes lists of CPUs."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
