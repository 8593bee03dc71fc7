"""``{i}`` in the names of a design: the number of an instance, ``{i:03d}`` as 001."""

from __future__ import annotations

import re

from clusterlab.core.errors import UsageError

FORM = r"\{i(?::0[1-9]d)?\}"
_NUMBER = re.compile(r"\{i(?::0([1-9])d)?\}")


def with_number(pattern: str, number: int) -> str:
    """``pattern`` with ``number`` in place of its ``{i}``."""
    return _NUMBER.sub(lambda form: str(number).zfill(int(form[1] or 1)), pattern)


def need_number(pattern: str, count: int, *, where: str) -> None:
    """Raise UsageError when ``count`` things would share one name, or its number has another form."""
    if "{i" in _NUMBER.sub("", pattern):
        raise UsageError(
            f"the number in {pattern!r}", where=where, expected="{i}, or {i:03d} for 001, 002, …"
        )
    if count > 1 and not _NUMBER.search(pattern):
        raise UsageError(
            f"{count} of them would all be called {pattern!r}",
            where=where,
            expected="{i} in the name, or {i:03d} for 001, 002, …",
        )
