"""A switch of a tree as scheduler files write it: a name, switches below it, nodes on it."""

from __future__ import annotations

from dataclasses import dataclass

MAX_NODES = 262_144
"""Node names one file may list: more than any cluster, few enough to hold."""


@dataclass(frozen=True, slots=True)
class TreeSwitch:
    """One switch: the names of switches below it, of nodes on it, and the line where it stands."""

    name: str
    switches: tuple[str, ...]
    nodes: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Locality:
    """Nodes that belong together: a block, a ring, a torus, an accelerator domain. No switch is named.

    ``alias`` is the name that a comment or annotation gives it: a rack, an NVLink clique.
    """

    name: str
    nodes: tuple[str, ...]
    line: int
    alias: str | None = None
