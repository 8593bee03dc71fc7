"""What to call a rail and a leaf that is not there, from how the leaves are named. Pure.

Names serve people only: which leaf is on which rail was found without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from clusterlab.topology.rails.infer import Rails

_PARTS = re.compile(r"(\d+)")


def rail_said(rails: Rails, rail: int) -> str:
    """``rail 2 (leaf names …03…)``: the rail's number from 0 and what its leaves' names have in common."""
    column = _rail_column(rails)
    leaf = next((leaf for leaf, r in rails.of_leaf.items() if r == rail), None)
    if column is None or leaf is None:
        return f"rail {rail}" + (f" ({leaf} …)" if leaf else "")
    parts = _PARTS.split(leaf)
    return f"rail {rail} (leaves {parts[column - 1].lstrip('-_. ')}{parts[column]}…)"


def leaf_would_be(rails: Rails, group: int, rail: int) -> str | None:
    """The name of a group's missing leaf: a sibling's with the rail's number in the rail's place."""
    column = _rail_column(rails)
    like = next((leaf for leaf, r in rails.of_leaf.items() if r == rail), None)
    if column is None or like is None or not rails.groups[group]:
        return None
    parts = _PARTS.split(rails.groups[group][0])
    parts[column] = _PARTS.split(like)[column]
    name = "".join(parts)
    return None if name in rails.of_leaf else name


def _rail_column(rails: Rails) -> int | None:
    """The number in the leaves' names that is one per rail; None where there is none, or two such."""
    split = {leaf: _PARTS.split(leaf) for leaf in rails.of_leaf}
    if len({len(parts) for parts in split.values()}) != 1:
        return None
    width = len(next(iter(split.values())))
    columns = [c for c in range(1, width, 2) if _tells_rail(rails, split, c)]
    return columns[0] if len(columns) == 1 else None


def _tells_rail(
    rails: Rails, split: dict[str, Sequence[str]] | dict[str, list[str]], column: int
) -> bool:
    pairs = {(rails.of_leaf[leaf], parts[column]) for leaf, parts in split.items()}
    return len(pairs) == rails.count == len({word for _, word in pairs})
