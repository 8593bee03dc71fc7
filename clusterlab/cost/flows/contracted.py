"""End points that are alike as one: n² pairs of NICs become a few pairs of kinds.

Two end points are alike when their cables lead to the same switches with the same rate and health. Flows
between them and anything else then split alike over the network, so that one node with the cables of
all of them carries the sum; its cables' load divides evenly among theirs. Exact for traffic that depends on
the kinds only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterlab.topology.routing.network import Network
from clusterlab.topology.routing.options import Longs


@dataclass(frozen=True, eq=False)
class Contracted:
    """``network`` has two nodes per kind, ``switches + 2 k`` and the one after it, each with the cables
    of all of its ``count[k]`` end points: what goes from one of a kind to another of it goes from the first
    to the second. ``kind`` [nodes given] numbers them, ``first`` [kinds] is one end point of each.
    """

    network: Network
    kind: Longs
    count: Longs
    first: Longs


def contracted(network: Network, nodes: Longs) -> Contracted:
    """``network`` with the end points ``nodes`` (each once) drawn together and all others left out."""
    kind, first = _kinds(network, nodes)
    count = np.bincount(kind, minlength=len(first))
    within = np.flatnonzero(network.low < network.switches)
    start, cables = network.up
    own = [cables[start[node] : start[node + 1]] for node in nodes[first].tolist()]
    of = np.concatenate([np.full(len(c), k, dtype=np.int64) for k, c in enumerate(own)] or [_NONE])
    at = np.concatenate([*own, np.zeros(0, np.int32)]).astype(np.int64)
    low = np.concatenate(
        [network.low[within], network.switches + 2 * of, network.switches + 2 * of + 1]
    )
    source = np.concatenate([within, at, at])
    order = np.lexsort((network.number[source], network.high[source], low))
    times = np.concatenate([np.ones(len(within)), count[of], count[of]])[order]
    source = source[order]
    names = [network.nodes[node] for node in nodes[first].tolist()]
    return Contracted(
        Network(
            name=network.name,
            nodes=(
                *network.nodes[: network.switches],
                *(n for name in names for n in (name, name)),
            ),
            switches=network.switches,
            tier=np.concatenate(
                [network.tier[: network.switches], np.zeros(2 * len(first), dtype=np.int8)]
            ),
            low=low[order].astype(np.int32),
            high=network.high[source],
            number=network.number[source],
            GBps=network.GBps[source] * times,
            health=network.health[source],
            up_link=network.up_link[source],
            down_link=network.down_link[source],
            links=network.links,
        ),
        kind,
        count,
        first,
    )


_NONE: Longs = np.zeros(0, dtype=np.int64)


def _kinds(network: Network, nodes: Longs) -> tuple[Longs, Longs]:
    """(kind of each node, the place of the first of each kind), kinds in order of appearance."""
    start, cables = network.up
    degree = (start[nodes + 1] - start[nodes]).astype(np.int64)
    label = np.zeros(len(nodes), dtype=np.int64)
    for ports in np.unique(degree).tolist():
        mine = np.flatnonzero(degree == ports)
        at = cables[start[nodes[mine]][:, None] + np.arange(ports)]
        rows = np.concatenate(
            [network.high[at], np.nan_to_num(network.GBps[at], nan=-1.0), network.health[at]],
            axis=1,
        ).astype(np.float64)
        _, which = np.unique(rows, axis=0, return_inverse=True)
        label[mine] = label.max(initial=-1) + 1 + which.ravel()
    _, first, kind = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[kind.ravel()], first[order]
