"""Shortest paths of any kind, for pairs that no up-down path joins: within a tier, or up again.

What a dragonfly's switches do (minimal routing; Kim, Dally, Scott, Abts, "Technology-driven,
highly-scalable dragonfly topology", ISCA 2008), and what a ring, a chain or a mesh of switches leaves.
Paths like these can wait for each other in a circle; real ones take virtual lanes against that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.errors import UsageError
from clusterlab.topology.routing.choosing import pick
from clusterlab.topology.routing.network import Bools, Floats, Ints, Network
from clusterlab.topology.routing.options import Longs, Options, keyed
from clusterlab.topology.routing.policy import Policy, Words
from clusterlab.topology.routing.ports import nearest_ports, port_numbers
from clusterlab.topology.routing.switch_graph import APART, SwitchGraph, switch_graph

_Hop = tuple[Longs, int, Ints, Ints, Bools]
"""Pairs, the place on their path, and there: cable, ways, back."""
_CELLS = 1 << 22
"""Distances (destination, switch) held at a time."""
_MOST_HOPS = 1 << 27
"""Cables of all paths together: bounds memory."""


@dataclass(frozen=True, eq=False)
class MinimalPaths:
    """``cables`` and ``ways`` [pairs, longest], ``back`` and ``reached`` as in ``updown.Routes``."""

    cables: Ints
    ways: Ints
    back: Bools
    reached: Bools


@dataclass(frozen=True, eq=False)
class _Block:
    """Some of the pairs, their nearest ports, and how far all switches are from where they arrive.

    ``column`` is the row of ``distance`` of each entry of ``last``.
    """

    pairs: Longs
    ports: Options
    first: Ints
    last: Ints
    column: Longs
    distance: Ints
    targets: Ints


def minimal_paths(
    network: Network, tables: Network, flows: tuple[Ints, Ints, Words], policy: Policy
) -> MinimalPaths:
    """One shortest path over live cables for each pair of different end points.

    ``tables`` is the network whose distances the switches know (as it was, in local repair); ``flows``
    are sources, destinations and what ``policy`` hashes, [pairs] each.
    Raises UsageError for more cables than can be held.
    """
    src, dst, word = flows
    hops: list[_Hop] = []
    reached = np.zeros(len(src), dtype=bool)
    for block in _blocks(network, tables, src, dst):
        _walk(network, block, (src, policy, word), hops, reached)
    width = max((place + 1 for _, place, *_ in hops), default=0)
    if width * len(src) > _MOST_HOPS:
        raise UsageError(
            f"{len(src)} paths of up to {width} cables",
            where=f"fabric {network.name}",
            expected=f"at most {_MOST_HOPS} cables in all",
            fix="ask for fewer pairs",
        )
    cables, ways = (np.full((len(src), width), empty, np.int32) for empty in (-1, 0))
    back = np.zeros((len(src), width), dtype=bool)
    for pairs, place, took, count, downward in hops:
        cables[pairs, place], ways[pairs, place], back[pairs, place] = took, count, downward
    cables[~reached], ways[~reached], back[~reached] = -1, 0, False
    return MinimalPaths(cables, ways, back, reached)


def minimal_load(
    network: Network,
    tables: Network,
    demand: tuple[Ints, Ints, Floats],
    load: Floats,
    *,
    broken: Bools,
) -> float:
    """Add to ``load`` [2, cables] what pairs put on all their shortest paths, by capacity; returns what
    is lost, but for what reaches a broken last cable. ``demand``: sources, destinations, rates.
    """
    src, dst, rate = demand
    if not len(src):
        return 0.0
    graph, delivered, unsent = switch_graph(network), 0.0, float(rate.sum())
    for block in _blocks(network, tables, src, dst):
        count = block.ports.count
        weight = np.minimum(network.weight[block.first], network.weight[block.last])
        row = np.repeat(np.arange(len(count)), count)
        share = weight / np.bincount(row, weights=weight, minlength=len(count))[row]
        amount = rate[block.pairs][row] * share
        load[0] += np.bincount(block.first, weights=amount, minlength=len(network.low))
        amount = np.where(broken[block.first], 0.0, amount)
        flow = np.zeros(block.distance.shape)
        np.add.at(flow, (block.column, network.high[block.first]), amount)
        _spread(graph, block.distance, flow, load, broken)
        sent = np.bincount(block.column, weights=amount, minlength=len(flow))
        arrived = flow[np.arange(len(flow)), block.targets]
        through = np.divide(arrived, sent, out=np.zeros_like(sent), where=sent > 0)
        ends = amount * through[block.column]
        load[1] += np.bincount(block.last, weights=ends, minlength=len(network.low))
        delivered += float(ends.sum())
    return unsent - delivered


def _blocks(network: Network, tables: Network, src: Ints, dst: Ints) -> Iterator[_Block]:
    """The joined pairs, some destinations at a time."""
    graph = switch_graph(tables)

    def apart(leaves: Ints, enters: Ints) -> NDArray[np.integer]:
        return np.where(graph.part[leaves] == graph.part[enters], 0, APART)

    joined = np.flatnonzero(nearest_ports(network, apart, src, dst, far=int(APART))[0].count)
    destinations, which = np.unique(dst[joined], return_inverse=True)
    width = max(1, _CELLS // max(1, network.switches))
    for begin in range(0, len(destinations), width):
        pairs = joined[(which >= begin) & (which < begin + width)]
        yield _block(network, graph, pairs, src[pairs], dst[pairs])


def _block(network: Network, graph: SwitchGraph, pairs: Longs, src: Ints, dst: Ints) -> _Block:
    ends = np.zeros(len(network.nodes), dtype=bool)
    ends[dst] = True
    targets = np.unique(network.high[ends[network.low]]).astype(np.int32)
    distance = graph.distances(targets)

    def between(leaves: Ints, enters: Ints) -> NDArray[np.integer]:
        return distance[np.searchsorted(targets, enters), leaves]

    options, first, last = nearest_ports(network, between, src, dst, far=int(APART))
    column = np.searchsorted(targets, network.high[last])
    return _Block(pairs, options, first, last, column, distance, targets)


def _walk(
    network: Network,
    block: _Block,
    flows: tuple[Ints, Policy, Words],
    hops: list[_Hop],
    reached: Bools,
) -> None:
    """Move the pairs of a block to their destinations, hop by hop; writes into ``hops``, ``reached``."""
    src, policy, word = flows
    pairs, start, numbers = block.pairs, block.ports.start, port_numbers(network)
    chosen = pick(
        policy,
        start,
        np.minimum(network.weight[block.first], network.weight[block.last]),
        np.arange(len(pairs)),
        word=word[pairs],
        switch=src[pairs],
        turn=numbers[block.last[start[:-1]]],
    )
    first, last, column = block.first[chosen], block.last[chosen], block.column[chosen]
    ports = block.ports.count.astype(np.int32)
    hops.append((pairs, 0, first, ports, np.zeros(len(pairs), dtype=bool)))
    at, on, place = network.high[first], np.arange(len(pairs)), 1
    while len(on):
        here = block.distance[column[on], at[on]] == 0
        home, on = on[here], on[~here]
        reached[pairs[home]] = True
        if len(home):
            hops.append((pairs[home], place, last[home], ports[home], np.ones(len(home), bool)))
        if len(on):
            ends = pairs[on], at[on], column[on], numbers[last[on]]
            some, hop, other = _step(network, block, ends, place, (policy, word))
            on = on[some]
            at[on] = other
            hops.append(hop)
        place += 1


def _step(
    network: Network,
    block: _Block,
    flows: tuple[Longs, Ints, Longs, Longs],
    place: int,
    by: tuple[Policy, Words],
) -> tuple[Bools, _Hop, Ints]:
    """One cable nearer for flows (pair, switch, column, turn): which of them go on, the hop, and where to."""
    pairs, at, column, turn = flows
    policy, word = by
    switch, asked, row = keyed(at, column.astype(np.int32), len(block.targets))
    options, _, other, back = switch_graph(network).nearer(
        switch, asked.astype(np.int64), block.distance
    )
    some: Bools = options.count[row] > 0
    row = row[some]
    chosen = pick(
        policy,
        options.start,
        network.weight[options.cables],
        row,
        word=word[pairs[some]],
        switch=at[some],
        turn=turn[some],
    )
    ways = options.count[row].astype(np.int32)
    hop = (pairs[some], place, options.cables[chosen], ways, back[chosen])
    return some, hop, other[chosen]


def _spread(graph: SwitchGraph, distance: Ints, flow: Floats, load: Floats, broken: Bools) -> None:
    """Move ``flow`` [columns, switches] to distance 0, the farthest first, and add it to ``load``."""
    joined = distance[distance < APART]
    for far in range(int(joined.max(initial=0)), 0, -1):
        column, switch = np.nonzero((distance == far) & (flow > 0))
        options, row, other, back = graph.nearer(switch.astype(np.int32), column, distance)
        weight = graph.network.weight[options.cables]
        total = np.bincount(row, weights=weight, minlength=len(switch))
        moved = flow[column, switch][row] * weight / total[row]
        flow[column, switch] = 0.0
        np.add.at(load, (back.astype(np.int64), options.cables), moved)
        goes = ~broken[options.cables]
        np.add.at(flow, (column[row[goes]], other[goes]), moved[goes])
