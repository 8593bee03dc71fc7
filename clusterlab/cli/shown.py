"""Text of files on a terminal: names that people and other tools chose move no cursor and hide nothing."""

from __future__ import annotations

import unicodedata

_KEPT = "\n\t"
_HIDDEN = ("Cc", "Cf", "Cs")
"""Control characters (escapes), format characters (right-to-left marks), halves of surrogate pairs."""


def shown(text: str) -> str:
    r"""``text`` with such characters written out: ``\x1b``."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode()
        if c not in _KEPT and unicodedata.category(c) in _HIDDEN
        else c
        for c in text
    )
