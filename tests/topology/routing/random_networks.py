"""Irregular little networks for property tests: many ports, parallel cables, tiers left out, failures."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, DeviceKind, Link
from clusterlab.topology.routing.network import Network, network_of

TIERS: tuple[DeviceKind, ...] = ("nic", "leaf", "spine", "core")


@st.composite
def networks(draw: st.DrawFn, *, broken: bool = True) -> Network:
    """2-6 NICs with one or two ports, up to 4 leaves, 3 spines, 2 cores, wired at random."""
    counts = [draw(st.integers(low, high)) for low, high in ((2, 6), (1, 4), (0, 3), (0, 2))]
    names = [[f"{kind}{i}" for i in range(n)] for kind, n in zip(TIERS, counts, strict=True)]
    devices = [Device(name, kind) for kind, of in zip(TIERS, names, strict=True) for name in of]
    pairs = [(nic, draw(st.sampled_from(names[1]))) for nic in names[0]]
    pairs += [(nic, draw(st.sampled_from(names[1]))) for nic in names[0] if draw(st.booleans())]
    for low, high in ((1, 2), (2, 3)):
        pairs += [(a, b) for a in names[low] for b in names[high] if draw(st.integers(0, 3))]
    skips = [(a, b) for a in names[1] for b in names[3]] + [
        (a, b) for a in names[0] for b in names[2]
    ]
    if skips:
        pairs += draw(st.lists(st.sampled_from(skips), max_size=2))
    within = [(a, b) for tier in names[1:] for a, b in combinations(tier, 2)]
    if within:
        pairs += draw(st.lists(st.sampled_from(within), max_size=3))
    links = []
    for a, b in dict.fromkeys(pairs):
        rate = draw(st.sampled_from([25.0, 50.0, 100.0]))
        parallel = draw(st.integers(1, 3))
        whole = draw(st.sampled_from([1.0, 1.0, 1.0, 0.5, 0.0] if broken else [1.0]))
        links += [
            Link(x, y, "ib", rate, multiplicity=parallel, health=whole) for x, y in ((a, b), (b, a))
        ]
    return network_of(Fabric("random", tuple(devices), tuple(links)))


def up_down_graph(network: Network, without: Iterable[int] = ()) -> nx.DiGraph[tuple[int, str]]:
    """Nodes (n, "up") and (n, "down"): a path may turn down once, at a switch. Weights count cables."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    gone = set(without)
    for n in range(len(network.nodes)):
        graph.add_nodes_from([(n, "up"), (n, "down")])
        if n < network.switches:
            graph.add_edge((n, "up"), (n, "down"), weight=0)
    for c in range(len(network.low)):
        if network.live[c] and not network.level[c] and c not in gone:
            low, high = int(network.low[c]), int(network.high[c])
            graph.add_edge((low, "up"), (high, "up"), weight=1)
            graph.add_edge((high, "down"), (low, "down"), weight=1)
    return graph


def any_way_graph(network: Network) -> nx.DiGraph[Any]:
    """Nodes n of switches, (n, "up") and (n, "down") where traffic begins and ends: no way through a NIC."""
    graph: nx.DiGraph[Any] = nx.DiGraph()
    for n in range(network.switches, len(network.nodes)):
        graph.add_nodes_from([(n, "up"), (n, "down")])
    for c in np.flatnonzero(network.live).tolist():
        low, high = int(network.low[c]), int(network.high[c])
        if low < network.switches:
            graph.add_edges_from([(low, high), (high, low)])
        else:
            graph.add_edges_from([((low, "up"), high), (high, (low, "down"))])
    return graph
