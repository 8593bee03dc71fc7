"""Texts as a careless paste or a failing disk leaves them."""

from __future__ import annotations

import re

from hypothesis import strategies as st


@st.composite
def mangled(draw: st.DrawFn, text: str) -> str:
    """``text`` with a few words replaced, lines dropped or doubled, or the end cut off."""
    pieces = re.split(r"(\s+|[\"'=<>])", text)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(pieces) - 1))
        kind = draw(st.sampled_from(["drop", "double", "junk", "swap", "number", "cut"]))
        if kind == "drop":
            pieces[at] = ""
        elif kind == "double":
            pieces[at] *= 2
        elif kind == "junk":
            pieces[at] = draw(st.text(max_size=6))
        elif kind == "number":
            pieces[at] = draw(
                st.sampled_from(["-1", "0", "1e999", "99999999999999999999", "nan", "٣"])
            )
        elif kind == "swap":
            other = draw(st.integers(0, len(pieces) - 1))
            pieces[at], pieces[other] = pieces[other], pieces[at]
        else:
            pieces = pieces[: at + 1]
    return "".join(pieces)
