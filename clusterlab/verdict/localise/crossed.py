"""From ways over resources to which components touch which measurements. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.verdict.localise.types import Components, Crossed, Floats, Longs, grouped, some_of


@dataclass(frozen=True, eq=False)
class Incidence:
    """Which resource each probe uses: ``full`` and ``share`` as in ``Crossed``. ``side``: resources of one
    side (up, down, neither) carry shares of the same bytes side by side; across sides all bytes pass again.
    """

    probe: Longs
    resource: Longs
    full: Floats
    share: Floats
    side: Longs
    probes: int
    chance: bool = False


UP, DOWN, NEITHER = 0, 1, 2
_SHOWS = 0.04
"""Of a part that carries less of a message than this, even the loss of all does not show."""

_NONE = np.zeros(0, dtype=np.int64)


def crossed(components: Components, ways: Incidence) -> Crossed:
    """Join ``ways`` with the components of each resource."""
    first, last = components.start[ways.resource], components.start[ways.resource + 1]
    count = last - first
    row = np.repeat(np.arange(len(ways.probe)), count)
    place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    component = components.of[first[row] + place]
    key, which = np.unique(component * max(1, ways.probes) + ways.probe[row], return_inverse=True)
    full = np.zeros(len(key))
    np.maximum.at(full, which, ways.full[row])
    share = np.zeros(len(key))
    for side in (UP, DOWN, NEITHER):
        mine = np.where(ways.side[row] == side, ways.share[row], 0.0)
        share = np.maximum(share, np.bincount(which, weights=mine, minlength=len(key)))
    found = Crossed(
        component=key // max(1, ways.probes),
        probe=key % max(1, ways.probes),
        full=full,
        share=np.minimum(share, 1.0),
        probes=ways.probes,
        chance=ways.chance,
    )
    return found if ways.chance else some_of(found, found.share >= _SHOWS)


def joined(parts: Sequence[Crossed]) -> Crossed:
    """Of several rounds, one after the other."""
    offsets = np.cumsum([0, *(p.probes for p in parts)])
    component = np.concatenate([p.component for p in parts] or [_NONE])
    probe = np.concatenate([p.probe + o for p, o in zip(parts, offsets, strict=False)] or [_NONE])
    order = np.lexsort((probe, component))
    return Crossed(
        component[order],
        probe[order],
        np.concatenate([p.full for p in parts] or [np.zeros(0)])[order],
        np.concatenate([p.share for p in parts] or [np.zeros(0)])[order],
        int(offsets[-1]),
        chance=any(p.chance for p in parts),
    )


def components_of(
    named: Sequence[tuple[str, str, float, Sequence[int], tuple[str, ...]]], resources: int
) -> Components:
    """From (name, kind, weight, resources, links) of each; ``resources`` is how many there are."""
    of = np.concatenate(
        [np.full(len(n[3]), i, dtype=np.int64) for i, n in enumerate(named)] or [_NONE]
    )
    at = np.concatenate([np.asarray(n[3], dtype=np.int64) for n in named] or [_NONE])
    order = np.argsort(at, kind="stable")
    return Components(
        names=tuple(n[0] for n in named),
        kinds=tuple(n[1] for n in named),
        weight=np.array([n[2] for n in named], dtype=np.float64),
        start=grouped(at[order], resources),
        of=of[order].astype(np.int64),
        links=tuple(n[4] for n in named),
    )
