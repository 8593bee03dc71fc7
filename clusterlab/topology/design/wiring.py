"""Which devices a line of wiring joins: patterns with ``*``, ``[0-3]`` and ``{i}`` against names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.topology.design.numbers import FORM


def connect(
    names: Sequence[str],
    from_pattern: str,
    to_pattern: str,
    *,
    where_from: str,
    where_to: str,
    may_loop: bool = False,
) -> list[tuple[str, str]]:
    """All (from, to) pairs of different devices, in the order of ``names``.

    ``*`` stands for anything but a slash, ``[0-3]`` for a number in that range, ``{i}`` for a number,
    the same on both sides (1 and 001 are). Raises UsageError naming the side that matches nothing: a
    dangling link. ``may_loop`` pairs a device with itself, and only with itself (class memory).
    """
    sources = numbered(names, from_pattern, where_from)
    targets = numbered(names, to_pattern, where_to)
    if may_loop:
        return [(name, name) for name, _ in sources if any(name == t for t, _ in targets)]
    by_same = all(_SAME.search(pattern) for pattern in (from_pattern, to_pattern))
    by_number: defaultdict[int | None, list[str]] = defaultdict(list)
    for name, number in targets:
        by_number[number if by_same else None].append(name)
    count = sum(len(by_number[number if by_same else None]) for _, number in sources)
    if count > MAX_PAIRS:
        raise UsageError(
            f"{from_pattern!r} and {to_pattern!r} make {count} links",
            where=where_from,
            expected=f"at most {MAX_PAIRS}",
        )
    pairs = [
        (a, b) for a, number in sources for b in by_number[number if by_same else None] if a != b
    ]
    if not pairs:
        raise UsageError(
            f"dangling link: {from_pattern!r} and {to_pattern!r} share no number",
            where=where_from,
            expected="at least one pair of devices",
        )
    return pairs


MAX_PAIRS = 4_000_000
"""Links of one line of wiring: as many as a design may hold one by one."""
MAX_SPAN = 4096
_SAME = re.compile(FORM)
_PARTS = re.compile(rf"(\*+|{FORM}|\[[0-9]+(?:-[0-9]+)?\])")


def _expression(part: str, where: str) -> str:
    if _SAME.fullmatch(part):
        return "([0-9]{1,18})"
    if part.startswith("*"):
        return "[^/]*"
    return _numbers(part, where) if _PARTS.fullmatch(part) else re.escape(part)


def _numbers(part: str, where: str) -> str:
    """``[0-3]`` is any number from 0 to 3, ``[12]`` the number 12, ``[001-016]`` 001 to 016."""
    first, _, last = part[1:-1].partition("-")
    span = range(int(first), int(last or first) + 1)
    if not 0 < len(span) <= MAX_SPAN:
        raise UsageError(
            f"range {part}", where=where, expected=f"rising, at most {MAX_SPAN} numbers"
        )
    width = len(first) if first.startswith("0") else 1
    return "(?:" + "|".join(str(number).zfill(width) for number in span) + ")"


def numbered(names: Sequence[str], pattern: str, where: str) -> list[tuple[str, int | None]]:
    """The ``names`` that ``pattern`` matches, each with its ``{i}`` (None where it has none).

    Raises UsageError at ``where`` when it matches nothing.
    """
    if len(_SAME.findall(pattern)) > 1:
        raise UsageError(f"{pattern!r} has {{i}} twice", where=where, expected="{i} once")
    compiled = re.compile("".join(_expression(part, where) for part in _PARTS.split(pattern)))
    found = [
        (name, int(match.group(1)) if match.re.groups else None)
        for name in names
        if (match := compiled.fullmatch(name))
    ]
    if not found:
        raise UsageError(
            f"dangling link: no device matches {pattern!r}",
            where=where,
            expected="the name of a device, or a pattern with * or {i}",
            fix=did_you_mean(pattern, names),
        )
    return found
