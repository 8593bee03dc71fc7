"""Text from elsewhere (host names, command lines, findings) made safe to show."""

from __future__ import annotations

import re
import unicodedata

# ECMA-48 control sequences: CSI …, OSC … BEL or ST, and single escapes.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)

# Cc: control characters. Cf: invisible formatting, among them the marks that reverse reading order.
# Cs: halves of surrogate pairs, which no encoder accepts.
_UNSHOWN = {"Cc", "Cf", "Cs"}


_BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
"""Tabs and whatever any reader takes for the end of a line (str.splitlines)."""


def plain(text: str) -> str:
    """``text`` on one line without escape sequences, control, bidi and surrogate characters."""
    kept = (
        " " if c in _BREAKS else "" if unicodedata.category(c) in _UNSHOWN else c
        for c in _ESCAPES.sub("", text)
    )
    return "".join(kept)


NAME_LETTERS = 120
"""Of a name in a heading, a title or a sentence: nobody reads more."""


def cut(text: str, most: int = NAME_LETTERS) -> str:
    """``text``, its end marked where it is longer than ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
