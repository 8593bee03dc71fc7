"""Which lines can match a pattern at all: texts that a match must contain, found before any pattern runs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

_LEAST = 4  # shorter texts stand in too many lines to be worth it
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<repeat>\{[0-9,]*\})|(?P<char>.)",
    re.DOTALL,
)


def required_texts(pattern: str) -> tuple[bytes, ...] | None:
    """Texts in lower case of which every match has one; None where the pattern does not tell.

    Of each alternative the longest run of plain ASCII characters, or else those of a group in it.
    """
    found: list[bytes] = []
    for runs, groups in _alternatives(pattern):
        longest = max(runs, key=len)
        if len(longest) >= _LEAST:
            found.append(longest.lower().encode("ascii"))
            continue
        inner = next((texts for g in groups if (texts := required_texts(g)) is not None), None)
        if inner is None:
            return None
        found += inner
    return tuple(dict.fromkeys(found))


def _alternatives(pattern: str) -> Iterator[tuple[list[str], list[str]]]:
    """Per alternative, the runs of characters and the groups' insides that a match must contain."""
    runs, groups, depth, opened = [""], list[str](), 0, 0
    for token in _TOKEN.finditer(pattern):
        word, char = token[0], token["char"]
        if char in {"(", ")"}:
            depth += 1 if char == "(" else -1
            if depth == 0:
                groups.append(pattern[opened : token.start()])
            elif depth == 1 and char == "(":
                opened = token.end()
            runs.append("")
        elif depth:
            continue
        elif char == "|":
            yield runs, [_inside(g) for g in groups]
            runs, groups = [""], []
        elif (char is not None and char in "?*") or token["repeat"]:
            if pattern[token.start() - 1] == ")":
                groups.pop()  # may be absent
            runs = [*runs[:-1], runs[-1][:-1], ""]
        elif char is not None and char not in ".^$+" and char.isascii() and char != "\n":
            runs[-1] += char
        elif token["escape"] and not word[1].isalnum() and word[1].isascii():
            runs[-1] += word[1]
        else:
            runs.append("")
    yield runs, [_inside(g) for g in groups]


def _inside(group: str) -> str:
    """A group without its ``?:``; of one that looks around or has flags, nothing."""
    if group.startswith("?"):
        return group[2:] if group.startswith("?:") else ""
    return group


def index_of(patterns: Sequence[str]) -> tuple[dict[bytes, list[int]], list[int]]:
    """Text → numbers of the patterns that require it; and the patterns that must run on every line."""
    texts: dict[bytes, list[int]] = {}
    always: list[int] = []
    for number, pattern in enumerate(patterns):
        required = required_texts(pattern)
        if required is None:
            always.append(number)
        for text in required or ():
            texts.setdefault(text, []).append(number)
    return texts, always


def candidates(
    lines: Sequence[bytes], texts: Mapping[bytes, Sequence[int]], always: Sequence[int]
) -> dict[int, set[int]]:
    """Line number (from 0) → the patterns that may match it, lines in order."""
    block = b"\n".join(lines).lower()
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found: dict[int, set[int]] = {i: set(always) for i in range(len(lines))} if always else {}
    for text, numbers in texts.items():
        at = block.find(text)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            found.setdefault(line, set()).update(numbers)
            at = block.find(text, starts[line + 1])
    return dict(sorted(found.items()))
