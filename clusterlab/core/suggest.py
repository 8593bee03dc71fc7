"""'Did you mean …' for names people type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from clusterlab.core.errors import UsageError

_COMPARED = 20_000  # names looked through for a near one: a second's work
_LISTED = 40


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """``did you mean 'x'?`` for the nearest known word, or None when nothing is near."""
    lowered = {k.lower(): k for k in islice(known, _COMPARED)}
    near = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    return f"did you mean {lowered[near[0]]!r}?" if near else None


def unknown(kind: str, word: str, known: Iterable[str], *, where: str | None = None) -> UsageError:
    """The error for an unknown ``kind`` of name, listing what is known and the nearest match."""
    names = list(known)
    more = f", … ({len(names)} in all)" if len(names) > _LISTED else ""
    return UsageError(
        f"unknown {kind} {word!r}",
        where=where,
        expected="one of " + ", ".join(names[:_LISTED]) + more,
        fix=did_you_mean(word, names),
    )


def reject_unknown_keys(keys: Iterable[str], known: Iterable[str], *, where: str) -> None:
    """Raise UsageError naming the first key that is not known."""
    names = dict.fromkeys(known)
    for key in keys:
        if key not in names:
            raise unknown("key", str(key), names, where=where)
