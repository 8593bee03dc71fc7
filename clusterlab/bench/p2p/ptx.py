"""How wide the accesses of a compiled kernel are, from its PTX. Pure."""

from __future__ import annotations

import re

_LOAD = re.compile(r"\bld\.global([\w.:]*)")
_VECTOR = re.compile(r"v(\d{1,2})")
_TYPE = re.compile(r"[busf](\d{1,3})")


def load_bytes(ptx: str) -> int | None:
    """Bytes that a thread loads from global memory at once; None where loads differ, or there is none."""
    widths = set()
    for modifiers in _LOAD.findall(ptx):
        words = modifiers.strip(".").split(".")
        vector = next((int(m[1]) for w in words if (m := _VECTOR.fullmatch(w))), 1)
        bits = next((int(m[1]) for w in words if (m := _TYPE.fullmatch(w))), 0)
        widths.add(vector * bits // 8)
    return widths.pop() if len(widths) == 1 else None
