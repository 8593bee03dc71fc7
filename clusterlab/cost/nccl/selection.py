"""NCCL_ALGO's and NCCL_PROTO's grammar (`parseList` of `src/graph/tuning.cc`).

``ring,tree`` for all collectives; ``^nvls`` all but; ``allreduce:tree,nvls;broadcast:ring`` for some, after
an optional first list for all. Any case.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.nccl.words import COLLECTIVES, NCCL_COLLECTIVES

Selection = tuple[tuple[str, frozenset[str]], ...]
"""Collective to what is selected for it; a collective that is not there has no selection."""


def parse_selection(variable: str, text: str, names: Mapping[str, str]) -> Selection:
    """What ``variable`` selects per collective. ``names``: our word to NCCL's. Raises UsageError."""
    ours = {theirs.lower(): word for word, theirs in names.items()}
    selected: dict[str, frozenset[str]] = {}
    for i, part in enumerate(part for part in text.split(";") if part):
        prefix, colon, listed = part.partition(":")
        if not colon:
            prefix, listed = "", part
        if i and not colon:
            raise UsageError(
                f"{part!r} in {text!r} names no collective",
                where=variable,
                expected="every list but the first to begin with one, as in ring;allreduce:tree",
            )
        chosen = _listed(variable, listed, names, ours)
        for collective in _collectives(variable, prefix.strip(), bool(colon)):
            selected[collective] = chosen
    if not selected:
        raise UsageError(f"{text!r} selects nothing", where=variable, expected=_example(names))
    return tuple(sorted(selected.items()))


def _collectives(variable: str, prefix: str, named: bool) -> tuple[str, ...]:
    if not named:
        return COLLECTIVES
    found = [word for word, theirs in NCCL_COLLECTIVES.items() if theirs.lower() == prefix.lower()]
    if not found:
        raise unknown("collective", prefix, NCCL_COLLECTIVES.values(), where=variable)
    return tuple(found)


def _listed(
    variable: str, text: str, names: Mapping[str, str], ours: Mapping[str, str]
) -> frozenset[str]:
    text = text.strip()
    excluded = text.startswith("^")
    words = [word.strip() for word in text.removeprefix("^").split(",") if word.strip()]
    if not words:
        raise UsageError(f"{text!r} lists nothing", where=variable, expected=_example(names))
    for word in words:
        if word.lower() not in ours:
            raise unknown("value", word, names.values(), where=variable)
    listed = {ours[word.lower()] for word in words}
    return frozenset(names) - listed if excluded else frozenset(listed)


def _example(names: Mapping[str, str]) -> str:
    first, second = list(names.values())[:2]
    return f"{first},{second} or ^{second} or allreduce:{first};broadcast:{second}"
