"""Up-down paths for many pairs at once: up to the lowest tier that sees both ends, then down.

No path goes up again after it went down (a valley), so no two flows can wait for each other in a circle
(Schroeder et al., "Autonet", 1991). Every path is as short as an up-down path between its ends can be.
Pairs that no up-down path joins (a dragonfly's, or two switches with cables between them and nothing
above) take a shortest path of any kind instead (``minimal``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from clusterlab.core.errors import UsageError
from clusterlab.topology.routing import options
from clusterlab.topology.routing.choosing import pick
from clusterlab.topology.routing.minimal import minimal_paths
from clusterlab.topology.routing.network import Bools, Ints, Network
from clusterlab.topology.routing.options import Longs, Options
from clusterlab.topology.routing.policy import Pinned, Policy, Words, flow_hash
from clusterlab.topology.routing.ports import port_numbers, port_pairs, tier_divisors
from clusterlab.topology.routing.reach import Reach, reach_of

MAX_CABLES = 6
"""NIC, leaf, spine, core and down again."""


@dataclass(frozen=True, eq=False)
class Routes:
    """``cables`` [pairs, 6 or the longest] from source to destination, -1 behind the last.

    ``back`` [pairs, 6]: whether a cable is crossed from its high to its low end. ``ups``: the first so
    many go up, the others down; 0 where the path is not up-down (``minimal`` [pairs]).
    ``ways`` [pairs, 6]: among how many equally good cables each was chosen. ``reached`` is False where
    no path exists (then all cables are -1); a pair of one node with itself is reached over no cable.
    """

    cables: Ints
    ups: NDArray[np.int8]
    ways: Ints
    reached: Bools
    back: Bools
    minimal: Bools

    @cached_property
    def length(self) -> Longs:
        """[pairs] cables on the path."""
        counted: Longs = (self.cables >= 0).sum(axis=1)
        return counted


def route_pairs(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    policy: Policy,
    *,
    labels: NDArray[np.integer] | None = None,
    tables: Reach | None = None,
) -> Routes:
    """One path for each pair of end points (node numbers, equally many): up-down, else the shortest.

    ``labels`` [pairs] tells flows of one pair apart (queue pair, port number); it moves hashes only.
    ``tables`` are those the switches route by, default those of the live network: give those of the same
    network before it lost cables to see switches that know only their own (local repair).
    Raises UsageError for arrays that do not fit or nodes that are no end points.
    """
    reach = tables or reach_of(network)
    walk = _Walk.start(network, reach, src, dst, policy=policy, labels=labels)
    last, last_ways = walk.take_ports()
    apart = np.flatnonzero(~walk.reached)
    for _ in range(2):
        walk.up()
    turned = walk.length.copy()
    for _ in range(2):
        walk.down()
    walk.arrive(last, last_ways)
    ups = np.where(walk.reached, np.minimum(turned, walk.length), 0).astype(np.int8)
    back = (walk.cables >= 0) & (np.arange(MAX_CABLES) >= ups[:, None])
    minimal = np.zeros(len(src), dtype=bool)
    routes = Routes(walk.cables, ups, walk.ways, walk.reached, back, minimal)
    return routes if not len(apart) else _with_minimal(routes, apart, walk)


def _with_minimal(routes: Routes, apart: Longs, walk: _Walk) -> Routes:
    """The pairs ``apart``, which no up-down path joins, over shortest paths of any kind."""
    flows = walk.src[apart], walk.dst[apart], walk.word[apart]
    paths = minimal_paths(walk.network, walk.reach.network, flows, walk.policy)
    wide = widened(routes, paths.cables.shape[1])
    for whole, part in (
        (wide.cables, paths.cables),
        (wide.ways, paths.ways),
        (wide.back, paths.back),
    ):
        whole[apart, : part.shape[1]] = part
    wide.reached[apart] = wide.minimal[apart] = paths.reached
    return wide


def widened(routes: Routes, width: int) -> Routes:
    """A copy with room for paths of ``width`` cables."""
    more = ((0, 0), (0, max(0, width - routes.cables.shape[1])))
    return Routes(
        np.pad(routes.cables, more, constant_values=-1),
        routes.ups.copy(),
        np.pad(routes.ways, more),
        routes.reached.copy(),
        np.pad(routes.back, more),
        routes.minimal.copy(),
    )


@dataclass(eq=False)
class _Walk:
    """Where every flow is on its way; the steps write into it."""

    network: Network
    reach: Reach
    policy: Policy
    src: Ints
    dst: Ints
    word: Words
    at: Ints
    target: Ints
    number: Longs
    cables: Ints
    ways: Ints
    length: Longs
    reached: Bools

    @classmethod
    def start(
        cls,
        network: Network,
        reach: Reach,
        src: NDArray[np.integer],
        dst: NDArray[np.integer],
        *,
        policy: Policy,
        labels: NDArray[np.integer] | None,
    ) -> _Walk:
        for name, nodes in (("src", src), ("dst", dst)):
            if nodes.ndim != 1 or len(nodes) != len(src):
                raise UsageError(
                    f"{nodes.shape} node numbers",
                    where=name,
                    expected=f"one for each of {len(src)} pairs",
                )
            if len(nodes) and not network.switches <= nodes.min() <= nodes.max() < len(
                network.nodes
            ):
                raise UsageError(
                    f"node numbers {nodes.min()} to {nodes.max()}",
                    where=name,
                    expected=f"end points: {network.switches} to {len(network.nodes) - 1}",
                )
        pairs = len(src)
        seed = 0 if isinstance(policy, Pinned) else policy.seed
        return cls(
            network=network,
            reach=reach,
            policy=policy,
            src=src.astype(np.int32),
            dst=dst.astype(np.int32),
            word=flow_hash(seed, src, dst, labels),
            at=np.zeros(pairs, dtype=np.int32),
            target=np.zeros(pairs, dtype=np.int32),
            number=np.zeros(pairs, dtype=np.int64),
            cables=np.full((pairs, MAX_CABLES), -1, dtype=np.int32),
            ways=np.zeros((pairs, MAX_CABLES), dtype=np.int32),
            length=np.zeros(pairs, dtype=np.int64),
            reached=np.ones(pairs, dtype=bool),
        )

    def take_ports(self) -> tuple[Ints, Ints]:
        """Choose the first and the last cable among the pairs of ports that are nearest to each other.

        Returns the last cable of each flow and among how many pairs of ports it was chosen.
        """
        choice, first, last = port_pairs(self.network, self.reach, self.src, self.dst)
        count = choice.count
        self.reached &= (count > 0) | (self.src == self.dst)
        moving = np.flatnonzero((count > 0) & (self.src != self.dst))
        number = port_numbers(self.network)
        ports = self.network.up[0][self.dst[moving]]
        self.number[moving] = number[ports]
        chosen = np.zeros(len(self.src), dtype=np.int64)
        weights = np.minimum(self.network.weight[first], self.network.weight[last])
        chosen[moving] = pick(
            self.policy,
            choice.start,
            weights,
            moving,
            word=self.word[moving],
            switch=self.src[moving],
            turn=self.number[moving],
        )
        took, gives = first[chosen[moving]], last[chosen[moving]]
        self._append(moving, took, count[moving])
        self.at[moving] = self.network.high[took]
        self.target[moving] = self.network.high[gives]
        self.number[moving] = number[gives]
        final, ways = np.full(len(self.src), -1, np.int32), np.zeros(len(self.src), np.int32)
        final[moving], ways[moving] = gives, count[moving]
        return final, ways

    def up(self) -> None:
        """One cable up for every flow that cannot go down yet."""
        group = self.reach.group[self.target]
        distances = self.reach.down[self.at, group], self.reach.total[self.at, group]
        rising = self._under_way() & (distances[0] > distances[1])
        any_up = self.reach.any_up[self.at, group]
        free, bound = np.flatnonzero(rising & any_up), np.flatnonzero(rising & ~any_up)
        divisor = tier_divisors(self.network)[self.network.tier[self.at]]
        turn = self.number // divisor
        high = self.network.high
        self._step(free, options.all_up(self.network), self.at[free], high, turn[free])
        if len(bound):
            switch, asked, row = options.keyed(
                self.at[bound], group[bound], self.reach.down.shape[1]
            )
            choice = options.up(self.network, self.reach, switch, asked)
            self._step(bound, choice, row, high, turn[bound])

    def down(self) -> None:
        """One cable down for every flow that is not where its destination hangs."""
        group = self.reach.group[self.target]
        distance, under_way = self.reach.down[self.at, group], self._under_way()
        low, tier, divisors = self.network.low, self.network.tier, tier_divisors(self.network)
        far = np.flatnonzero(under_way & (distance > 1))
        last = np.flatnonzero(under_way & (distance == 1))
        if len(far):
            switch, asked, row = options.keyed(self.at[far], group[far], self.reach.down.shape[1])
            choice = options.down(self.network, self.reach, switch, asked)
            turn = self.number[far] // divisors[tier[self.at[far]] - 1]
            self._step(far, choice, row, low, turn)
        if len(last):
            upper, lower, row = options.keyed(
                self.at[last], self.target[last], self.network.switches
            )
            turn = self.number[last] // divisors[tier[self.target[last]]]
            choice = options.between(self.network, lower, upper)
            self._step(last, choice, row, low, turn)

    def arrive(self, last: Ints, ways: Ints) -> None:
        """The last cable, for flows at their destination's switch; the others have no path."""
        moving = self.reached & (self.src != self.dst)
        lost = moving & (self.at != self.target)
        self.reached &= ~lost
        arrived = np.flatnonzero(moving & ~lost)
        self._append(arrived, last[arrived], ways[arrived])
        self.cables[~self.reached] = -1
        self.ways[~self.reached] = 0

    def _under_way(self) -> Bools:
        moving: Bools = self.reached & (self.at != self.target) & (self.src != self.dst)
        return moving

    def _append(self, flows: Longs, cables: Ints, ways: NDArray[np.integer]) -> None:
        self.cables[flows, self.length[flows]] = cables
        self.ways[flows, self.length[flows]] = ways
        self.length[flows] += 1

    def _step(
        self, flows: Longs, choice: Options, row: NDArray[np.integer], to: Ints, turn: Longs
    ) -> None:
        """Move ``flows`` over one of their options each; ``row`` says which of them are a flow's."""
        count = choice.count[row]
        self.reached[flows[count == 0]] = False
        some = count > 0
        flows, row, turn = flows[some], row[some], turn[some]
        chosen = pick(
            self.policy,
            choice.start,
            self.network.weight[choice.cables],
            row,
            word=self.word[flows],
            switch=self.at[flows],
            turn=turn,
        )
        took = choice.cables[chosen]
        self._append(flows, took, count[some])
        self.at[flows] = to[took]
