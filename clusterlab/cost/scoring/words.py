"""What the grammars of table cells share: their words, and the ones nobody knows."""

from __future__ import annotations

import re

from clusterlab.core.errors import UsageError
from clusterlab.cost.scoring.vocabulary import Vocabulary

MAX_TEXT = 400


def names_of(cell: str) -> list[str]:
    """The words of a cell, without those that are only digits and multiplication signs."""
    return [w for w in re.findall(r"[a-z0-9]+", cell) if re.search(r"[a-z]", w)]


def unknown_of(names: list[str], words: Vocabulary) -> tuple[str, ...]:
    """Those of ``names`` that no grammar reads."""
    known = words.ignored.union(
        words.link_words,
        words.rates_Gbps,
        words.adapters_Gbps,
        words.ethernet_words,
        *(t.words for t in words.transports),
    )
    left = []
    for name in dict.fromkeys(names):
        bare = re.sub(r"[0-9]+", "", name)
        if (
            name not in known
            and bare not in known
            and not re.fullmatch(r"(?:\d*x)+\d*[gt]?|\d+[gt]", name)
        ):
            left.append(name)
    return tuple(left)


def check_length(text: str, where: str) -> None:
    """Raise UsageError for more text than any cell has."""
    if len(text) > MAX_TEXT:
        raise UsageError(f"{len(text)} characters", where=where, expected=f"at most {MAX_TEXT}")
