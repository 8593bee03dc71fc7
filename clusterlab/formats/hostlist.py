"""Slurm's hostlists (``n[0-3,7]``) and repeat counts (``3,2(x2),1``): to plain lists and back.

Grammar as in Slurm's src/common/hostlist.c: names separated by commas; any number of brackets in a
name, the rightmost running fastest; text after a bracket; a range is padded to the width of its first
number. Order and duplicates are kept: the first host of a step means something.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import groupby, product

from clusterlab.core.errors import UsageError
from clusterlab.core.order import natural

MAX_HOSTS = 65536  # MAX_RANGE in Slurm's hostlist.c
_DIGITS = r"[0-9]{1,9}"

_LITERAL = re.compile(r"[A-Za-z0-9._-]+")
_RANGE = re.compile(rf"({_DIGITS})(?:-({_DIGITS}))?")
_COUNT = re.compile(rf"({_DIGITS})(?:\(x({_DIGITS})\))?")
_LAST_NUMBER = re.compile(rf"(.*[^0-9]|)({_DIGITS})([^0-9]*)")


def expand_hostlist(text: str, *, where: str = "hostlist", limit: int = MAX_HOSTS) -> list[str]:
    """The host names of ``text``, in its order. ``where`` names the variable or file in errors.

    Raises UsageError for an empty list, a broken bracket, a character that no host name has, or more
    than ``limit`` hosts.
    """
    hosts: list[str] = []
    for item in _items(text, where):
        parts = [_expand_part(part, limit, where) for part in re.split(r"(\[.*?\])", item) if part]
        _check_limit(len(hosts) + math.prod(len(p) for p in parts), limit, where)
        hosts.extend("".join(name) for name in product(*parts))
    return hosts


def compress_hostlist(hosts: Iterable[str]) -> str:
    """A hostlist that expands to ``hosts`` in the same order; each name's last number goes in brackets."""
    pieces = []
    split = map(_split_last_number, hosts)
    for (prefix, numbered, suffix), group in groupby(split, lambda s: (s[0], bool(s[1]), s[2])):
        numbers = [number for _, number, _ in group]
        if not numbered:
            pieces += [prefix] * len(numbers)
        elif len(numbers) == 1:
            pieces.append(prefix + numbers[0] + suffix)
        else:
            pieces.append(f"{prefix}[{_ranges(numbers)}]{suffix}")
    return ",".join(pieces)


def fold_hosts(hosts: Iterable[str]) -> str:
    """A hostlist of ``hosts``, each once, in the order people count (n2 before n10): for hosts whose own
    order means nothing.
    """
    return compress_hostlist(sorted(dict.fromkeys(hosts), key=natural))


def expand_counts(text: str, *, where: str = "counts", limit: int = MAX_HOSTS) -> list[int]:
    """Slurm's repeat counts: ``3,2(x2),1`` (tasks per node) is [3, 2, 2, 1]. Raises UsageError."""
    counts: list[int] = []
    for item in text.split(","):
        match = _COUNT.fullmatch(item.strip())
        if match is None:
            raise UsageError(
                f"{item!r} is not a count", where=where, expected="counts such as 3,2(x2),1"
            )
        repeat = int(match[2] or 1)
        _check_limit(len(counts) + repeat, limit, where)
        counts += [int(match[1])] * repeat
    return counts


def _items(text: str, where: str) -> list[str]:
    """``text`` cut at the commas outside brackets."""
    depth, start, items = 0, 0, []
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise _broken(text, "brackets do not pair", where)
        if char == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
    items.append(text[start:].strip())
    if depth:
        raise _broken(text, "brackets do not pair", where)
    if not all(items):
        raise _broken(text, "a host name is empty", where)
    return items


def _expand_part(part: str, limit: int, where: str) -> list[str]:
    """A literal stands for itself; ``[0-3,7]`` for its numbers."""
    if not part.startswith("["):
        if not _LITERAL.fullmatch(part):
            raise _broken(part, "not a host name", where)
        return [part]
    numbers: list[str] = []
    for piece in part[1:-1].split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            raise _broken(part, f"{piece!r} is not a number or a range", where)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise _broken(part, f"the range {piece.strip()} runs backwards", where)
        _check_limit(len(numbers) + last - first + 1, limit, where)
        numbers += [str(n).zfill(len(match[1])) for n in range(first, last + 1)]
    return numbers


def _split_last_number(host: str) -> tuple[str, str, str]:
    """``rack1-n007-ib`` → (``rack1-n``, ``007``, ``-ib``); no number: (host, "", "")."""
    match = _LAST_NUMBER.fullmatch(host)
    return (match[1], match[2], match[3]) if match else (host, "", "")


def _ranges(numbers: list[str]) -> str:
    """Runs of numbers that expansion gives back exactly, padding included."""
    runs: list[tuple[str, int]] = []
    for number in numbers:
        if runs:
            first, length = runs[-1]
            if number == str(int(first) + length).zfill(len(first)):
                runs[-1] = (first, length + 1)
                continue
        runs.append((number, 1))
    return ",".join(
        first if length == 1 else f"{first}-{str(int(first) + length - 1).zfill(len(first))}"
        for first, length in runs
    )


def _check_limit(count: int, limit: int, where: str) -> None:
    if count > limit:
        raise UsageError(f"{count} entries", where=where, expected=f"at most {limit}")


def _broken(text: str, why: str, where: str) -> UsageError:
    shown = text if len(text) <= 80 else text[:77] + "…"
    return UsageError(f"{shown!r}: {why}", where=where, expected="a hostlist such as n[0-3,7]")
