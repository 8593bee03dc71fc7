"""The time of gloo's all_to_all on a network: its messages played out on the ports of the fabric's links."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.cost.estimate import Ways
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.gloo.exchange import PIECE_BYTES, Path, calls_us_per_byte
from clusterlab.topology.fabric import Fabric

_MOST_PIECES = 16
_MOST_AT_ONCE = 16_000
"""Pieces of all messages of a call: more take seconds, and say no more."""

_MOST_PAIRS = 16_000
_ORDERS = 4
_PAIRS_OF_ONE_ORDER = 256
"""Among more the orders in which ranks begin even out."""


def exchange_us(
    fabric: Fabric,
    groups: Sequence[tuple[str, ...]],
    ways: Ways,
    size_bytes: int,
    routing: Routing,
) -> float:
    """µs of a call of ``size_bytes`` (nccl-tests' size) in each of ``groups`` of devices, all at once.

    0 where nothing leaves a host, and for more than 127 ranks, which nobody plays out. Kept by the fabric for
    messages of as many pieces.
    """
    message = max(size_bytes / len(group) for group in groups)
    pairs = sum(len(group) * (len(group) - 1) for group in groups)
    if not 0 < pairs <= _MOST_PAIRS:
        return 0.0
    most = max(1, min(_MOST_PIECES, _MOST_AT_ONCE // pairs))
    pieces = min(most, -(-int(message) // PIECE_BYTES) or 1)
    key = ("gloo exchange", routing, tuple(groups), pieces)
    if key not in fabric.memo:
        orders = _ORDERS if pairs <= _PAIRS_OF_ONE_ORDER else 1
        fabric.memo[key] = _us_per_byte(groups, ways, pieces, orders)
    us_per_byte: float = fabric.memo[key]
    return us_per_byte * message


def _us_per_byte(groups: Sequence[tuple[str, ...]], ways: Ways, pieces: int, orders: int) -> float:
    ports: dict[int, int] = {}
    GBps: list[float] = []
    device_of = [device for group in groups for device in group]
    ranks = iter(range(len(device_of)))
    numbered = [[next(ranks) for _ in group] for group in groups]
    paths: dict[tuple[int, int], Path] = {}
    for group in numbered:
        for a in group:
            for b in group:
                if a != b:
                    path = []
                    for crossing in ways[device_of[a], device_of[b]]:
                        link = crossing.link
                        if link.link_class in _NETWORK and link.capacity_GBps:
                            if id(link) not in ports:
                                ports[id(link)] = len(GBps)
                                GBps.append(link.capacity_GBps)
                            path.append(ports[id(link)])
                    paths[a, b] = tuple(path)
    return calls_us_per_byte(numbered, paths, GBps, pieces, orders)


_NETWORK = ("ib", "ethernet")
