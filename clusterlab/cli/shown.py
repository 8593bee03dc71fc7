"""Text of files on a terminal: names that people and other tools chose move no cursor and hide nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_KEPT = "\n\t"
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters (escapes), format characters (right-to-left marks), halves of surrogate pairs, and what
ends a line or a paragraph.
"""


def shown_lines(lines: Iterable[str]) -> str:
    """``lines`` one below the other; what a name in one of them would break is written out, too."""
    return "\n".join(shown(line).replace("\n", "\\n") for line in lines)


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
