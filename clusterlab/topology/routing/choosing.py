"""Which of its equally good cables each flow takes, for many flows at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.network import Floats, Ints
from clusterlab.topology.routing.options import Longs
from clusterlab.topology.routing.policy import (
    Adaptive,
    Pinned,
    Policy,
    StaticHash,
    Words,
    splitmix64,
)


def pick(
    policy: Policy,
    start: Longs,
    weights: Floats,
    row: NDArray[np.integer],
    *,
    word: Words,
    switch: Ints,
    turn: Longs,
) -> Longs:
    """Positions in a flat list of options: one of start[row]:start[row + 1] for each flow."""
    first, count = start[row], start[row + 1] - start[row]
    if isinstance(policy, Pinned):
        return np.asarray(first + turn % count)
    if not (isinstance(policy, StaticHash) and policy.alike):
        with np.errstate(over="ignore"):
            word = splitmix64(word + splitmix64(switch.astype(np.uint64)))
    if isinstance(policy, Adaptive):
        drawn = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return _drawn(start, weights, row, drawn)
    return np.asarray(first + (word % count.astype(np.uint64)).astype(np.int64))


def _drawn(start: Longs, weights: Floats, row: NDArray[np.integer], drawn: Floats) -> Longs:
    """Pick in proportion to the weights; ``drawn`` in [0, 1) decides."""
    first, count = start[row], start[row + 1] - start[row]
    found: Longs = np.asarray(first + (drawn * count).astype(np.int64))
    filled = np.flatnonzero(np.diff(start))
    uneven = np.zeros(len(start) - 1, dtype=bool)
    if len(filled):
        least = np.minimum.reduceat(weights, start[filled])
        uneven[filled] = least < np.maximum.reduceat(weights, start[filled])
    flows = np.flatnonzero(uneven[row])
    if len(flows):
        ends = np.concatenate(([0.0], np.cumsum(weights)))
        low, high = first[flows], first[flows] + count[flows]
        aim = ends[low] + drawn[flows] * (ends[high] - ends[low])
        found[flows] = np.clip(np.searchsorted(ends, aim, side="right") - 1, low, high - 1)
    return found
