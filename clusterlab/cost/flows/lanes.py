"""What each NIC sends to each, for a group that talks by a pattern."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.cost.flows.ends import NONE, Ends
from clusterlab.cost.flows.patterns import Pairs, Pattern, host_pairs, kind_pairs
from clusterlab.topology.routing.network import Floats
from clusterlab.topology.routing.options import Longs

_CELLS = 1 << 22
_CELLS_A_FLOW = 64


@dataclass(frozen=True, eq=False)
class LaneFlows:
    """``amount`` goes from NICs of kind ``src`` to NICs of kind ``dst``, each pair of kinds once. ``sends``
    and ``takes`` [hosts, lanes] are what each NIC does of it.
    """

    src: Longs
    dst: Longs
    amount: Floats
    sends: Floats
    takes: Floats


def lane_flows(pattern: Pattern, ends: Ends, kind: Longs) -> LaneFlows:
    """Of a group on ``ends``; ``kind`` [hosts, lanes] numbers alike NICs, NONE where there is none.

    A host spreads what it sends to another evenly over the lanes that both have. Raises UsageError for a
    host without a live NIC.
    """
    dead = np.flatnonzero((ends.nics == NONE).all(axis=1))
    if len(dead):
        raise UsageError(
            f"no NIC of {ends.hosts[dead[0]]} leads into the network",
            where="placement",
            expected="links that are up between all ranks",
        )
    if pattern != "all":
        return _flows(host_pairs(pattern, len(kind)), kind, np.arange(len(kind)), None)
    rows, host = np.unique(kind, axis=0, return_inverse=True)
    count = np.bincount(host.ravel(), minlength=len(rows))
    return _flows(kind_pairs(count), rows, host.ravel(), count)


def _flows(pairs: Pairs, kind: Longs, host: Longs, count: Longs | None) -> LaneFlows:
    """``pairs`` between rows of ``kind``; ``host`` is each host's row, ``count`` how many have that row."""
    kind, lane, times = _different(kind)
    kinds = int(kind.max()) + 1
    sends, takes = np.zeros(kind.shape), np.zeros(kind.shape)
    totals = _Totals(kinds * kinds, flows=len(pairs.src) * kind.shape[1])
    width = max(1, _CELLS // kind.shape[1])
    for at in range(0, len(pairs.src), width):
        part = slice(at, at + width)
        src, dst, amount = pairs.src[part], pairs.dst[part], pairs.amount[part]
        a, b, apart = _partners(kind[src], kind[dst])
        lanes = (a != NONE) & (b != NONE)
        each = np.where(lanes, (amount / (lanes @ times))[:, None], 0.0)
        sent = _on_own_lanes(each, kind[src], apart)
        taken = _on_own_lanes(each, kind[dst], apart)
        for column in range(kind.shape[1]):
            sends[:, column] += _sums(src, sent[:, column], len(kind))
            takes[:, column] += _sums(dst, taken[:, column], len(kind))
        totals.add(a[lanes] * kinds + b[lanes], (each * times)[lanes])
    key, total = totals.found()
    if count is not None:
        sends, takes = sends / count[:, None], takes / count[:, None]
    sends, takes = sends[:, lane], takes[:, lane]
    return LaneFlows(key // kinds, key % kinds, total, sends[host], takes[host])


def _different(kind: Longs) -> tuple[Longs, Longs, Longs]:
    """The lanes that differ, which of them each lane is, and how many lanes are each: lanes whose NICs are
    alike on every host carry equal flows. All as they are where a NIC is missing: lanes may meet crosswise.
    """
    if (kind == NONE).any():
        every = np.arange(kind.shape[1])
        return kind, every, np.ones_like(every)
    lanes, lane, times = np.unique(kind, axis=1, return_inverse=True, return_counts=True)
    return lanes, lane.ravel(), times


class _Totals:
    """Amounts of ``flows`` summed by key below ``size``: in a table where that is small, else by sorting.

    Also beside few flows a table is not small: a pair of NICs among a thousand has a million kinds of pairs.
    """

    def __init__(self, size: int, *, flows: int) -> None:
        self._table = np.zeros(size) if size <= min(_CELLS, _CELLS_A_FLOW * flows) else None
        self._keys: list[Longs] = []
        self._amounts: list[Floats] = []

    def add(self, keys: Longs, amounts: Floats) -> None:
        """Add ``amounts`` [flows] to ``keys`` [flows]."""
        if self._table is not None:
            self._table += _sums(keys, amounts, len(self._table))
            return
        key, which = np.unique(keys, return_inverse=True)
        self._keys.append(key)
        self._amounts.append(_sums(which, amounts, len(key)))

    def found(self) -> tuple[Longs, Floats]:
        """Every key that has an amount, in order, with its sum."""
        if self._table is not None:
            keys = np.flatnonzero(self._table)
            return keys, self._table[keys]
        keys, which = np.unique(np.concatenate(self._keys), return_inverse=True)
        return keys, _sums(which, np.concatenate(self._amounts), len(keys))


def _sums(which: Longs, amount: Floats, size: int) -> Floats:
    return np.bincount(which.ravel(), weights=amount, minlength=size).astype(np.float64)


def _partners(a: Longs, b: Longs) -> tuple[Longs, Longs, Longs]:
    """The lanes of both; where two hosts have none in common (rows ``apart``), the NICs they have, first with
    first.
    """
    apart = np.flatnonzero(~((a != NONE) & (b != NONE)).any(axis=1))
    if len(apart):
        a, b = a.copy(), b.copy()
        for row in apart.tolist():
            for side in (a, b):
                live = side[row][side[row] != NONE]
                side[row] = np.concatenate([live, np.full(side.shape[1] - len(live), NONE)])
    return a, b, apart


def _on_own_lanes(each: Floats, kind: Longs, apart: Longs) -> Floats:
    """``each`` [pairs, lanes]; the rows ``apart``, whose NICs moved to the front, back on their lanes."""
    if not len(apart):
        return each
    own = each.copy()
    for row in apart.tolist():
        lanes = np.flatnonzero(kind[row] != NONE)
        own[row] = 0.0
        own[row, lanes] = each[row, : len(lanes)]
    return own
