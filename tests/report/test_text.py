"""Text from elsewhere is inert wherever it is shown."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.report.text import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node-1", "node-1"),
        ("höst 名前 µs", "höst 名前 µs"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"),
        ("a\nb\tc\r", "a b c "),
        ("\u202egnp.exe", "gnp.exe"),
        ("\ud800x\x00\x9b", "x"),
    ],
)
def test_escapes_and_invisible_characters_are_removed(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_what_is_shown_is_one_visible_line_that_encodes(text: str) -> None:
    shown = plain(text)
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in shown)
    shown.encode()
    assert plain(shown) == shown
