"""The network part of a fabric as arrays: switches, what hangs on them, and every cable on its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Link

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_KEY = ("routing", "network")


@dataclass(frozen=True, eq=False)
class Network:
    """Nodes and cables of a fabric outside its hosts.

    Nodes: first the switches in the fabric's order, then the end points (NICs, mostly) in the order of
    their first link. ``tier`` [nodes] is 0 for end points, 1 leaf, 2 spine, 3 core. Cables are sorted by
    (``low``, ``high``), the ends nearer to and farther from the NICs; parallel ones keep the order of
    the fabric's links, ``number`` counts them from 0. ``GBps`` [cables] is one direction of one cable
    (nan: unknown). A cable needs both directions: its ``health`` and GBps are the lesser of the two, a
    missing direction counts as down. ``up_link`` and ``down_link`` point into ``links``. Of a cable
    between switches of one tier ``low`` is the end with the lower number, and up leads from it.
    ``aggregation`` are the nodes inside switches that reduce for SHARP.
    """

    name: str
    nodes: tuple[str, ...]
    switches: int
    tier: NDArray[np.int8]
    low: Ints
    high: Ints
    number: Ints
    GBps: Floats
    health: Floats
    up_link: Ints
    down_link: Ints
    links: tuple[Link, ...]
    aggregation: frozenset[int] = frozenset()

    @cached_property
    def memo(self) -> dict[str, Any]:
        """What others derived from this network and want to keep (distances)."""
        return {}

    @cached_property
    def index(self) -> dict[str, int]:
        """Node number by device name."""
        return {name: i for i, name in enumerate(self.nodes)}

    @cached_property
    def live(self) -> Bools:
        """[cables] whether any capacity is left."""
        return self.health > 0

    @cached_property
    def weight(self) -> Floats:
        """[cables] capacity left per direction: GB/s × health; an unknown rate counts as 1."""
        return np.where(np.isnan(self.GBps), 1.0, self.GBps) * self.health

    @cached_property
    def level(self) -> Bools:
        """[cables] whether it joins switches of one tier, which up-down routing cannot use."""
        same: Bools = self.tier[self.low] == self.tier[self.high]
        return same

    @cached_property
    def up(self) -> tuple[Ints, Ints]:
        """(start [nodes + 1], cables): the cables by lower end; node n has cables[start[n]:start[n+1]].

        Those between switches of one tier lead neither up nor down.
        """
        cables = np.flatnonzero(~self.level).astype(np.int32)
        return _grouped(self.low[cables], len(self.nodes)), cables

    @cached_property
    def down(self) -> tuple[Ints, Ints]:
        """(start [nodes + 1], cables): the cables by upper end."""
        cables = np.flatnonzero(~self.level)
        order = cables[np.argsort(self.high[cables], kind="stable")].astype(np.int32)
        return _grouped(self.high[order], len(self.nodes)), order

    @property
    def end_points(self) -> Ints:
        """Node numbers of what hangs on the switches and sends for a host (NICs, mostly).

        A switch's own aggregation node (SHARP) is a node, but no traffic begins or ends there.
        """
        every = np.arange(self.switches, len(self.nodes), dtype=np.int32)
        return every if not self.aggregation else np.setdiff1d(every, sorted(self.aggregation))

    def node(self, device: str) -> int:
        """The node number of ``device``. Raises UsageError with the nearest name."""
        found = self.index.get(device)
        if found is None:
            raise UsageError(
                f"{device!r} has no cable to a switch",
                where=f"fabric {self.name}",
                expected=f"one of its {len(self.nodes)} switches and end points",
                fix=did_you_mean(device, self.nodes),
            )
        return found

    def cable_name(self, cable: int) -> str:
        """``leaf3/spine2#1``: lower end, upper end, number among parallel ones (left out when alone)."""
        low, high = int(self.low[cable]), int(self.high[cable])
        name = f"{self.nodes[low]}/{self.nodes[high]}"
        return name if len(self.between(low, high)) == 1 else f"{name}#{self.number[cable]}"

    def between(self, a: int, b: int) -> Ints:
        """The cables between two nodes, in either order, live or not."""
        low, high = sorted((a, b), key=lambda node: (int(self.tier[node]), node))
        first, last = np.searchsorted(self.low, (low, low + 1))
        found: Ints = (first + np.flatnonzero(self.high[first:last] == high)).astype(np.int32)
        return found

    def at(self, node: int) -> Ints:
        """All cables of a node, up, down and within its tier."""
        within = np.flatnonzero(self.level & ((self.low == node) | (self.high == node)))
        return np.concatenate(
            [
                *(cables[start[node] : start[node + 1]] for start, cables in (self.up, self.down)),
                within.astype(np.int32),
            ]
        )

    def without(self, cables: Iterable[int] | Ints) -> Network:
        """The same network with ``cables`` down: nodes and cables keep their numbers."""
        health = self.health.copy()
        health[np.fromiter(cables, dtype=np.int64)] = 0.0
        return replace(self, health=health)


def has_network(fabric: Fabric) -> bool:
    """Whether ``network_of`` finds anything: links with a leaf, spine or core at one end."""
    switches = {d.name for d in fabric.single_devices if d.kind in SWITCH_KINDS}
    return any(link.src in switches or link.dst in switches for link in fabric.network_links)


def network_of(fabric: Fabric) -> Network:
    """The switches of ``fabric``, what is linked to them, and every parallel cable. Kept in its memo.

    Only links with a leaf, spine or core at one end count. Raises UsageError when there is none.
    """
    known = fabric.memo.get(_KEY)
    if known is None:
        known = fabric.memo[_KEY] = _build(fabric)
    network: Network = known
    return network


def _build(fabric: Fabric) -> Network:
    tiers = {kind: i for i, kind in enumerate(SWITCH_KINDS, start=1)}
    tier_of = {d.name: tiers[d.kind] for d in fabric.single_devices if d.kind in tiers}
    index = {name: i for i, name in enumerate(tier_of)}
    switches = len(index)
    links = tuple(
        link for link in fabric.network_links if link.src in tier_of or link.dst in tier_of
    )
    if not links:
        raise UsageError(
            "no network to route on",
            where=f"fabric {fabric.name}",
            expected="links to devices of kind leaf, spine or core",
        )
    for link in links:
        index.setdefault(link.src, len(index))
        index.setdefault(link.dst, len(index))
    tier = np.zeros(len(index), dtype=np.int8)
    tier[:switches] = list(tier_of.values())
    src = np.fromiter((index[link.src] for link in links), np.int64, len(links))
    dst = np.fromiter((index[link.dst] for link in links), np.int64, len(links))
    network = _cables(fabric.name, tuple(index), tier, src, dst, links=links, switches=switches)
    reducing = [d.name for d in fabric.single_devices if d.role == "aggregation"]
    inside = frozenset(index[name] for name in reducing if index.get(name, 0) >= switches)
    return replace(network, aggregation=inside)


def _cables(
    name: str,
    nodes: tuple[str, ...],
    tier: NDArray[np.int8],
    src: NDArray[np.int64],
    dst: NDArray[np.int64],
    *,
    links: tuple[Link, ...],
    switches: int,
) -> Network:
    """Pair the n-th cable up with the n-th cable down of the same two nodes."""
    parallel = np.fromiter((link.multiplicity for link in links), np.int64, len(links))
    upward = (tier[src] < tier[dst]) | ((tier[src] == tier[dst]) & (src < dst))
    downward = ~upward & (src != dst)
    low, high = np.where(upward, src, dst), np.where(upward, dst, src)
    key = low * len(nodes) + high
    up_key, up_rank, up_link = _ranked(np.flatnonzero(upward), key, parallel)
    down_key, down_rank, down_link = _ranked(np.flatnonzero(downward), key, parallel)
    # One number for (pair of nodes, rank among its cables), so that both directions can be joined.
    most = int(max(up_rank.max(initial=0), down_rank.max(initial=0))) + 1
    up_id, down_id = up_key * most + up_rank, down_key * most + down_rank
    every = np.union1d(up_id, down_id)
    ahead, back = _positions(every, up_id, up_link), _positions(every, down_id, down_link)
    rate = np.fromiter(
        (np.nan if link.GBps is None else link.GBps for link in links), np.float64, len(links)
    )
    health = np.fromiter((link.health for link in links), np.float64, len(links))
    pair = every // most
    return Network(
        name=name,
        nodes=nodes,
        switches=switches,
        tier=tier,
        low=(pair // len(nodes)).astype(np.int32),
        high=(pair % len(nodes)).astype(np.int32),
        number=(every % most).astype(np.int32),
        GBps=np.fmin(_at(rate, ahead, np.nan), _at(rate, back, np.nan)),
        health=np.minimum(_at(health, ahead, 0.0), _at(health, back, 0.0)),
        up_link=ahead,
        down_link=back,
        links=links,
    )


def _ranked(
    chosen: NDArray[np.int64], key: NDArray[np.int64], parallel: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Ints]:
    """(key, rank among equal keys, link) of every cable of the chosen links, in order of keys."""
    order = chosen[np.argsort(key[chosen], kind="stable")]
    link = np.repeat(order, parallel[order])
    keys = key[link]
    first = np.searchsorted(keys, keys, side="left")
    return keys, np.arange(len(keys)) - first, link.astype(np.int32)


def _positions(every: NDArray[np.int64], ids: NDArray[np.int64], link: Ints) -> Ints:
    found = np.full(len(every), -1, dtype=np.int32)
    found[np.searchsorted(every, ids)] = link
    return found


def _at(values: Floats, link: Ints, absent: float) -> Floats:
    return np.where(link >= 0, values[link], absent)


def _grouped(ends: Ints, nodes: int) -> Ints:
    return np.searchsorted(ends, np.arange(nodes + 1)).astype(np.int32)
