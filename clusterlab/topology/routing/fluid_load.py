"""Adaptive routing as a fluid: every switch splits what it forwards in proportion to capacity left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.load import demand
from clusterlab.topology.routing.minimal import minimal_load
from clusterlab.topology.routing.network import Bools, Floats, Ints, Network
from clusterlab.topology.routing.options import (
    Longs,
    Options,
    all_up,
    between,
    down,
    expanded,
    up,
)
from clusterlab.topology.routing.ports import port_pairs
from clusterlab.topology.routing.reach import FAR, Reach, reach_of

_CELLS = 1 << 22
"""Cells of (switch, destination) demand held at a time."""
_AT_ONCE = 1 << 20
"""Flows times cables of a tier that are moved together; more go switch by switch."""


@dataclass(frozen=True, eq=False)
class FluidLoad:
    """``load`` [2, cables] up and down, ``lost``: what found no way on; both in the unit of the rates."""

    load: Floats
    lost: float


def fluid_load(
    network: Network,
    src: NDArray[np.integer],
    dst: NDArray[np.integer],
    GBps: Floats | float,
    *,
    tables: Reach | None = None,
    broken: Bools | None = None,
) -> FluidLoad:
    """What pairs with rates ``GBps`` put on every cable when all equal ways are used by their capacity.

    Ways of unknown rate count alike. ``tables`` as for ``route_pairs``. ``broken`` [cables] take their
    share and lose it: a failure nobody has noticed. Pairs that no up-down path joins spread over all
    their shortest paths. What is lost on the way to a switch is taken alike
    from all that hang on it.
    """
    reach = tables or reach_of(network)
    load = np.zeros((2, len(network.low)))
    sources, targets, rate = demand(network, src, dst, GBps)
    bad = np.zeros(len(network.low), dtype=bool) if broken is None else broken
    start, apart = _through_ports(network, reach, (sources, targets, rate), load)
    lost = minimal_load(
        network, reach.network, (sources[apart], targets[apart], rate[apart]), load, broken=bad
    )
    arrives = network.high[start.last]
    used = np.zeros(network.switches, dtype=bool)
    used[arrives] = True
    destinations, column = np.flatnonzero(used), (np.cumsum(used) - 1)[arrives]
    at, arrived = network.high[start.first], np.zeros(len(destinations))
    amount = np.where(bad[start.first], 0.0, start.amount)
    lost += float(start.amount.sum() - amount.sum())
    width = max(1, _CELLS // max(1, network.switches))
    for first in range(0, len(destinations), width):
        targets = destinations[first : first + width].astype(np.int32)
        inside = (column >= first) & (column < first + width)
        rising = np.zeros((network.switches, len(targets)))
        np.add.at(rising, (at[inside], column[inside] - first), amount[inside])
        block = _Block(network, reach, targets, load, bad)
        arrived[first : first + width], missing = block.spread(rising)
        lost += missing
    sent = np.bincount(column, weights=amount, minlength=len(destinations)).astype(float)
    through = np.divide(arrived, sent, out=np.zeros_like(sent), where=sent > 0)[column]
    load[1] += np.bincount(start.last, weights=amount * through, minlength=len(network.low))
    ends = network.low >= network.switches
    lost += float(load[1, bad & ends].sum())
    return FluidLoad(load, lost)


@dataclass(frozen=True, eq=False)
class _Start:
    """Rates by (first, last) cable."""

    first: Ints
    last: Ints
    amount: Floats


def _through_ports(
    network: Network, reach: Reach, pairs: tuple[Ints, Ints, Floats], load: Floats
) -> tuple[_Start, Longs]:
    """Split every pair over its nearest pairs of ports; returns also which no up-down path joins."""
    src, dst, rate = pairs
    options, first, last = port_pairs(network, reach, src, dst)
    row = np.repeat(np.arange(len(src)), options.count)
    weight = np.minimum(network.weight[first], network.weight[last])
    share = weight / np.bincount(row, weights=weight, minlength=len(src))[row]
    amount = rate[row] * share
    load[0] += np.bincount(first, weights=amount, minlength=len(network.low))
    return _Start(first, last, amount), np.flatnonzero(options.count == 0)


@dataclass(eq=False)
class _Block:
    """Demand towards some destinations, pushed up tier by tier and down again; adds to ``load``."""

    network: Network
    reach: Reach
    targets: Ints
    load: Floats
    broken: Bools

    def spread(self, rising: Floats) -> tuple[Floats, float]:
        """``rising`` [switches, targets] is what starts at each switch; (arrived [targets], lost)."""
        network = self.network
        falling = np.zeros_like(rising)
        lost = 0.0
        tiers = [np.flatnonzero(network.tier[: network.switches] == t) for t in range(1, 4)]
        home = (self.targets, np.arange(len(self.targets)))
        falling[home], rising[home] = rising[home], 0.0
        for switches in tiers:
            lost += self._up(switches, rising, falling)
        for switches in reversed(tiers):
            lost += self._down(switches, falling)
        return falling[home], lost

    def _up(self, switches: Longs, rising: Floats, falling: Floats) -> float:
        """Move what rises at the switches of one tier: what turns there falls. Returns what is lost."""
        reach, group = self.reach, self.reach.group[self.targets]
        row, some = np.nonzero(rising[switches])
        at = switches[row].astype(np.int32)
        if all_up(self.network).count[at].sum() <= _AT_ONCE:
            turns = reach.down[at, group[some]] <= reach.total[at, group[some]]
            falling[at[turns], some[turns]] += rising[at[turns], some[turns]]
            at, some = at[~turns], some[~turns]
            choice = up(self.network, reach, at, group[some])
            return self._over(choice, at, some, rising, upward=True)
        amount = rising[switches]
        turns = reach.down[switches][:, group] <= reach.total[switches][:, group]
        falling[switches] += np.where(turns, amount, 0.0)
        alike = ~turns & reach.any_up[switches][:, group]
        lost = self._split_alike(switches, np.where(alike, amount, 0.0), rising)
        rest = (amount > 0) & ~turns & ~alike
        for place in np.flatnonzero(rest.any(axis=1)).tolist():
            lost += self._split(switches[place], np.flatnonzero(rest[place]), rising, upward=True)
        return lost

    def _down(self, switches: Longs, falling: Floats) -> float:
        """Move what falls at the switches of one tier; returns what is lost."""
        reach, group = self.reach, self.reach.group[self.targets]
        row, some = np.nonzero(falling[switches])
        at = switches[row].astype(np.int32)
        away = self.targets[some] != at
        at, some = at[away], some[away]
        near = reach.down[at, group[some]] == 1
        above = np.diff(reach.above_start)[group[some[~near]]]
        if len(at) + above.sum() <= _AT_ONCE:
            last = between(self.network, self.targets[some[near]], at[near])
            lost = self._over(last, at[near], some[near], falling, upward=False)
            far = down(self.network, reach, at[~near], group[some[~near]])
            return lost + self._over(far, at[~near], some[~near], falling, upward=False)
        lost = 0.0
        for switch in switches.tolist():
            some = np.flatnonzero(falling[switch])
            some = some[self.targets[some] != switch]
            lost += self._split(switch, some, falling, upward=False)
        return lost

    def _over(self, choice: Options, at: Ints, some: Longs, flow: Floats, *, upward: bool) -> float:
        """Move flow[at, some] over the cables of ``choice`` by their weight; returns what is lost."""
        network, cables = self.network, choice.cables
        row = np.repeat(np.arange(len(at)), choice.count)
        weight, amount = network.weight[cables], flow[at, some]
        total = np.bincount(row, weights=weight, minlength=len(at))
        moved = amount[row] * weight / total[row]
        self.load[0 if upward else 1] += np.bincount(
            cables, weights=moved, minlength=len(network.low)
        )
        whole = ~self.broken[cables]
        end = (network.high if upward else network.low)[cables]
        np.add.at(flow, (end[whole], some[row[whole]]), moved[whole])
        return float(amount[total == 0].sum() + moved[~whole].sum())

    def _split_alike(self, switches: Longs, amount: Floats, flow: Floats) -> float:
        """Move ``amount`` [switches, targets] over all cables up, where each of them will do; returns what
        is lost.
        """
        from scipy.sparse import csr_array

        every = all_up(self.network)
        count = every.count[switches]
        row, place = expanded(count)
        mine = every.cables[every.start[switches][row] + place]
        weight, sums = self.network.weight[mine], amount.sum(axis=1)
        share = weight / np.bincount(row, weights=weight, minlength=len(switches))[row]
        self.load[0, mine] += share * sums[row]
        whole = ~self.broken[mine]
        ends, which = np.unique(self.network.high[mine[whole]], return_inverse=True)
        shape = (len(ends), len(switches))
        step = csr_array((share[whole], (which.ravel(), row[whole])), shape=shape)
        flow[ends] += step @ amount
        return float(sums[count == 0].sum() + (share * sums[row])[~whole].sum())

    def _split(self, switch: int, some: Longs, flow: Floats, *, upward: bool) -> float:
        """Move flow[switch, some] over the cables that go on; returns what is lost."""
        if not len(some):
            return 0.0
        network = self.network
        start, cables = network.up if upward else network.down
        mine = cables[start[switch] : start[switch + 1]]
        end = (network.high if upward else network.low)[mine]
        mine, end = mine[end < network.switches], end[end < network.switches]
        table = self.reach.total if upward else self.reach.down
        group = self.reach.group[self.targets[some]]
        here = table[switch, group]
        nearer = (table[end][:, group] + 1 == here) & (here < FAR)
        if not upward:
            nearer = np.where(here == 1, end[:, None] == self.targets[some], nearer)
        cable, target = np.nonzero(nearer & network.live[mine][:, None])
        weight, amount = network.weight[mine[cable]], flow[switch, some]
        total = np.bincount(target, weights=weight, minlength=len(some))
        moved = amount[target] * weight / total[target]
        carried = np.bincount(cable, weights=moved, minlength=len(mine))
        self.load[0 if upward else 1, mine] += carried
        gone = self.broken[mine[cable]]
        np.add.at(flow, (end[cable[~gone]], some[target[~gone]]), moved[~gone])
        return float(amount[total == 0].sum() + moved[gone].sum())
