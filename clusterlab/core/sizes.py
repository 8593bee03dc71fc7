"""Message sizes: nccl-tests' grammar, and the series of sizes a sweep visits.

A size is a number with an optional binary suffix: ``8``, ``4K``, ``1.5M``, ``8G``, ``2T``. As in
nccl-tests (`parsesize` in common.cu) K, M and G are powers of 1024; the spellings ``KB`` and ``KiB``
mean the same, in any case.
"""

from __future__ import annotations

import re

from clusterlab.core.errors import UsageError

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([KMGT]?)(?:i?B)?\s*", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

MAX_SIZE_BYTES = 1 << 52
"""4096 TiB: no machine holds more, and floats still count single bytes there."""

_LONGEST_NUMBER = 40

MAX_SIZES = 10_000
"""The longest series a sweep accepts: more is a typo in -i, not a wish."""


def parse_size(text: str, *, where: str = "size") -> int:
    """Bytes in ``text`` (nccl-tests' grammar). Raises UsageError; ``where`` names the option."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"not a size: {text!r}",
            where=where,
            expected="a number with an optional K, M, G or T (powers of 1024), such as 8, 4K, 1.5M",
        )
    number, unit = match.groups()
    if len(number) > _LONGEST_NUMBER:
        raise UsageError(f"too large a size: {number[:20]}…", where=where, expected="at most 4096T")
    # Integers stay exact at any length; a fraction is rounded down to whole bytes.
    factor = _UNITS[unit.upper()]
    size_bytes = int(number) * factor if number.isdecimal() else int(float(number) * factor)
    if size_bytes > MAX_SIZE_BYTES:
        raise UsageError(f"too large a size: {text.strip()}", where=where, expected="at most 4096T")
    return size_bytes


def format_size(size_bytes: int) -> str:
    """The shortest exact spelling that ``parse_size`` reads back: 1536 -> ``1536``, 1048576 -> ``1M``."""
    for unit in ("T", "G", "M", "K"):
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)


def human_size(size_bytes: float) -> str:
    """A size for people, at most three digits: ``8 B``, ``4 KiB``, ``1.5 MiB``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def size_series(
    begin: int, end: int, *, factor: float | None = None, step: int | None = None
) -> list[int]:
    """Sizes in bytes from ``begin`` to at most ``end``, by ``factor`` (default 2) or by ``step``.

    As nccl-tests' -b -e with -f or -i. Raises UsageError when the series would not end or is empty.
    """
    if factor is not None and step is not None:
        raise UsageError("-f and -i exclude each other", expected="a factor or a step, not both")
    if begin < 0 or end < begin:
        raise UsageError(
            f"no sizes from -b {format_size(begin)} to -e {format_size(end)}",
            expected="-b at most -e",
        )
    if step is not None:
        if step <= 0:
            raise UsageError(f"a step of {step} never ends", where="-i", expected="a positive size")
        count = (end - begin) // step + 1
        if count > MAX_SIZES:
            raise UsageError(
                f"{count} sizes in one sweep",
                where="-i",
                expected=f"at most {MAX_SIZES}",
                fix="use a larger -i, or a factor (-f 2)",
            )
        return list(range(begin, end + 1, step))
    return _geometric(begin, end, 2.0 if factor is None else factor)


def _geometric(begin: int, end: int, factor: float) -> list[int]:
    if not 1 < factor < float("inf"):
        raise UsageError(
            f"a factor of {factor:g} never ends", where="-f", expected="a number above 1"
        )
    if begin == 0:
        raise UsageError(
            "a factor never leads away from 0", where="-b", expected="a size above 0, or -i"
        )
    sizes = []
    size = begin
    while size <= end:
        sizes.append(size)
        if len(sizes) > MAX_SIZES:
            raise UsageError(
                f"more than {MAX_SIZES} sizes in one sweep", where="-f", expected="a larger factor"
            )
        # Whole bytes, and always forward: 1 byte times 1.1 is still 1 byte.
        size = max(size + 1, int(size * factor))
    return sizes
