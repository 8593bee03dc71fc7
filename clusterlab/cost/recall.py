"""What was made of a group's devices, kept by the fabric: a sweep asks for the same thousands each time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from clusterlab.topology.fabric import Fabric

T = TypeVar("T")

_KEPT = 64
"""Groups recognised as the same object; more are recognised by their devices."""


def recalled(
    fabric: Fabric, what: Hashable, devices: Sequence[str], make: Callable[[tuple[str, ...]], T]
) -> T:
    """``what`` of ``devices``, made once. The very tuple is recognised without comparing its names."""
    seen: dict[tuple[int, Hashable], tuple[object, T]] = fabric.memo.setdefault("recalled", {})
    at = seen.get((id(devices), what))
    if at is not None and at[0] is devices:
        return at[1]
    names = tuple(devices)
    key = ("recalled", what, names)
    if key not in fabric.memo:
        fabric.memo[key] = make(names)
    found: T = fabric.memo[key]
    if isinstance(devices, tuple):
        if len(seen) >= _KEPT:
            seen.clear()
        seen[id(devices), what] = (devices, found)
    return found
