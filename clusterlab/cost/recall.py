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
    return recalled_groups(fabric, what, (devices,), lambda groups: make(groups[0]))


def recalled_groups(
    fabric: Fabric,
    what: Hashable,
    groups: Sequence[Sequence[str]],
    make: Callable[[tuple[tuple[str, ...], ...]], T],
) -> T:
    """``what`` of several groups together, as ``recalled`` of one."""
    seen: dict[object, tuple[Sequence[object], T]] = fabric.memo.setdefault("recalled", {})
    same = (what, *map(id, groups))
    at = seen.get(same)
    if at is not None and all(a is b for a, b in zip(at[0], groups, strict=True)):
        return at[1]
    names = tuple(map(tuple, groups))
    key = ("recalled", what, names)
    if key not in fabric.memo:
        fabric.memo[key] = make(names)
    found: T = fabric.memo[key]
    if all(isinstance(devices, tuple) for devices in groups):
        if len(seen) >= _KEPT:
            seen.clear()
        seen[same] = (tuple(groups), found)
    return found
