"""What the vendors' command-line tables have in common: how they are pasted, and how they are cleaned."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterlab.core.errors import UsageError

MAX_CHARS = 4_000_000
RECOGNISED_CHARS = 1_000_000
"""A format is recognised by what stands this near to the beginning."""

MAX_DEVICES = 256
"""More devices of one host than any tool has printed; keeps the work on a broken file bounded."""

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PREFIX = re.compile(r"[\s\ufeff]*(?:[#>]+[ \t]*)*")


def clean_lines(text: str, *, file: str) -> list[tuple[int, str]]:
    """Line numbers (from 1) and lines without terminal escapes, indent, ``#`` or ``>`` before them.

    Tabs inside a line stay: they tell an empty field. Raises UsageError for a text beyond MAX_CHARS.
    """
    if len(text) > MAX_CHARS:
        raise UsageError(
            f"{len(text)} characters",
            where=file,
            expected=f"at most {MAX_CHARS}: the output of one host",
        )
    return list(_cleaned(text))


def check_count(devices: int, *, where: str) -> None:
    """Raise UsageError for more devices than one host can have."""
    if devices > MAX_DEVICES:
        raise UsageError(
            f"{devices} devices", where=where, expected=f"at most {MAX_DEVICES} devices of one host"
        )


def shortened(names: list[str], most: int = 12) -> str:
    """``GPU0, GPU1, … (20 in all)``: a list fit for a message."""
    more = f", … ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _cleaned(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line.isspace():
            yield number, ""
            continue
        plain = _ESCAPE.sub("", line).replace("\xa0", " ").rstrip("\r")
        yield number, plain[_PREFIX.match(plain).end() :]  # type: ignore[union-attr]
