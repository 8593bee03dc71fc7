"""Text of runs in Markdown that goes into tickets: it is shown, and makes no link, mention or markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.report.text import plain

# What begins something in GitHub's Markdown or in Jira's; both take a backslash before it.
_MARKUP = re.compile(r"([\\`*\[\]{}<>&!|~^$])")
_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # inside a word it means nothing
_LINK = re.compile(r"(?i)(://|\bwww\.|\bmailto:)")
_REFERENCE = re.compile(r"([@#])(?=\w)")
_APART = (
    "\u2060"  # word joiner: nothing to see, and no name of a person or number of an issue after it
)
_BLOCK = re.compile(r"^(\s*\d*)([-+=#.)])")


def words(text: str) -> str:
    """``text`` within a line of Markdown."""
    found = _MARKUP.sub(r"\\\1", plain(text))
    found = _UNDERSCORE.sub(r"\\_", found)
    found = _LINK.sub(lambda m: m[1][:-1] + "\\" + m[1][-1], found)
    return _REFERENCE.sub(rf"\1{_APART}", found)


def block(text: str) -> str:
    """``words`` that begin a line or an item of a list: no heading, no list of their own."""
    return _BLOCK.sub(r"\1\\\2", words(text))


def fenced(text: str) -> list[str]:
    """``text`` in a code block that it cannot end, line by line."""
    lines = [plain(line) for line in text.split("\n")]
    longest = max((len(run) for line in lines for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence, *lines, fence]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table; cells are text of runs."""
    lines = [heads, *rows]
    texts = ["| " + " | ".join(words(cell) or "–" for cell in line) + " |" for line in lines]
    return [texts[0], "|" + " --- |" * len(heads), *texts[1:]]
