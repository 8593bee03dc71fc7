"""What options say in words: shares, and lists of what may differ."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown


def percentage(text: str, *, where: str) -> float:
    """``5%`` or ``0.05`` as 0.05. Raises UsageError for what is no share between 0 and 1."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100 if number != text.strip() else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"{text!r}", where=where, expected="a share as 5% or 0.05")
    return value


def words_of(text: str, known: Sequence[str], *, where: str) -> frozenset[str]:
    """A comma-separated list of ``known`` words. Raises UsageError for others."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise unknown("word", word, list(known), where=where)
    return frozenset(words)
