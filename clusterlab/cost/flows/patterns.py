"""Which hosts of a group send to which, and how much, for each way of talking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from clusterlab.cost.schedules.trees import double_tree, tree_edges
from clusterlab.topology.routing.network import Floats
from clusterlab.topology.routing.options import Longs

Pattern = Literal["ring", "tree", "doubling", "all"]
"""A ring over hosts; both trees, up and down; host i to i + 2^k for all k; every host to every other."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Host ``src`` sends ``amount`` to ``dst``, in units of what a host of a ring sends."""

    src: Longs
    dst: Longs
    amount: Floats


def host_pairs(pattern: Pattern, hosts: int) -> Pairs:
    """Of ``hosts`` in ring order, for the patterns in which each has a few partners.

    Ring: 1 to the next. Tree: half the buffer over every edge of either tree, both ways. Doubling: of n
    blocks 2^k to the host 2^k farther (recursive doubling, PAT), n-1 in all.
    """
    here = np.arange(hosts)
    if pattern == "ring":
        return Pairs(here, (here + 1) % hosts, np.ones(hosts))
    if pattern == "tree":
        edges = np.array([e for tree in double_tree(hosts) for e in tree_edges(tree)], np.int64)
        both = np.concatenate([edges, edges[:, ::-1]])
        return Pairs(both[:, 0], both[:, 1], np.full(len(both), 0.5))
    steps = range((hosts - 1).bit_length())
    sent = [min(1 << k, hosts - (1 << k)) / (hosts - 1) for k in steps]
    return Pairs(
        np.concatenate([here for _ in steps]),
        np.concatenate([(here + (1 << k)) % hosts for k in steps]),
        np.repeat(sent, hosts),
    )


def kind_pairs(count: Longs) -> Pairs:
    """Every host to every other, each 1 in all, by kinds of hosts of which there are ``count`` each:
    ``amount`` is what all pairs of hosts of those two kinds send together.
    """
    many = count.astype(np.float64)
    src, dst = (a.ravel() for a in np.indices((len(count), len(count))))
    amount = ((np.outer(many, many) - np.diag(many)) / max(1, count.sum() - 1)).ravel()
    some = amount > 0
    return Pairs(src[some].astype(np.int64), dst[some].astype(np.int64), amount[some])
