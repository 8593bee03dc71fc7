"""How far switches are from each other over live cables of any kind, whatever their tiers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from clusterlab.topology.routing.network import Bools, Floats, Ints, Network
from clusterlab.topology.routing.options import Longs, Options, expanded

if TYPE_CHECKING:
    from scipy.sparse import csr_array

APART = np.int32(2**30)
"""Distance of switches that no live cables join."""


@dataclass(frozen=True, eq=False)
class SwitchGraph:
    """Live cables between switches, by either end: switch s has cables[start[s]:start[s + 1]], which
    lead to ``other``; ``back`` where from their high end to their low one.
    """

    network: Network
    start: Longs
    cables: Ints
    other: Ints
    back: Bools

    def nearer(
        self, switch: Ints, column: Longs, distance: Ints
    ) -> tuple[Options, Longs, Ints, Bools]:
        """For each (switch, column) the cables one step nearer by ``distance`` [columns, switches].

        Returns the options, and of each cable in them its row, the switch it leads to, and ``back``.
        """
        row, place = expanded(np.diff(self.start)[switch])
        mine = self.start[switch][row] + place
        near = distance[column[row], self.other[mine]] + 1 == distance[column, switch][row]
        row, mine = row[near], mine[near]
        counts = np.bincount(row, minlength=len(switch))
        start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
        return Options(start, self.cables[mine]), row, self.other[mine], self.back[mine]

    @cached_property
    def part(self) -> Ints:
        """[switches] the number of the connected part each is in."""
        from scipy.sparse.csgraph import connected_components

        found: Ints = connected_components(self._matrix, directed=False)[1].astype(np.int32)
        return found

    def distances(self, targets: Ints) -> Ints:
        """[targets, switches] numbers of cables on the shortest way; APART where there is none."""
        from scipy.sparse.csgraph import dijkstra

        far: Floats = dijkstra(self._matrix, indices=targets, unweighted=True)
        return np.where(np.isinf(far), APART, far).astype(np.int32)

    @cached_property
    def _matrix(self) -> csr_array:
        from scipy.sparse import csr_array

        switches = len(self.start) - 1
        ones = np.ones(len(self.other))
        return csr_array((ones, self.other, self.start), shape=(switches, switches))


def switch_graph(network: Network) -> SwitchGraph:
    """The graph of ``network``, kept in its memo."""
    known = network.memo.get("switch_graph")
    if known is None:
        known = network.memo["switch_graph"] = _build(network)
    graph: SwitchGraph = known
    return graph


def _build(network: Network) -> SwitchGraph:
    cables = np.flatnonzero(network.live & (network.low < network.switches)).astype(np.int32)
    ends = np.concatenate((network.low[cables], network.high[cables]))
    other = np.concatenate((network.high[cables], network.low[cables]))
    order = np.argsort(ends, kind="stable")
    start = np.searchsorted(ends[order], np.arange(network.switches + 1))
    back = order >= len(cables)
    both = np.concatenate((cables, cables))
    return SwitchGraph(network, start.astype(np.int64), both[order], other[order], back)
