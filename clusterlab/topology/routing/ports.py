"""The ports of end points: which a pair uses, how they are numbered, and what d-mod-k divides by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.routing.network import Ints, Network
from clusterlab.topology.routing.options import Longs, Options
from clusterlab.topology.routing.reach import FAR, Reach


def port_pairs(network: Network, reach: Reach, src: Ints, dst: Ints) -> tuple[Options, Ints, Ints]:
    """The nearest ports of each pair by up-down paths, as ``nearest_ports`` gives them."""

    def distance(leaves: Ints, enters: Ints) -> NDArray[np.integer]:
        return reach.total[leaves, reach.group[enters]]

    return nearest_ports(network, distance, src, dst, far=FAR)


def nearest_ports(
    network: Network,
    distance_between: Callable[[Ints, Ints], NDArray[np.integer]],
    src: Ints,
    dst: Ints,
    *,
    far: int,
) -> tuple[Options, Ints, Ints]:
    """For each pair, the (first, last) cables that are nearest to each other: one entry per choice.

    ``distance_between`` tells how far switches are from each other, ``far`` and more: not joined.
    Returns where each pair's choices start (``cables`` of it is the first cable), first and last cables.
    """
    start, cables = _live_ports(network)
    from_ports, to_ports = start[src + 1] - start[src], start[dst + 1] - start[dst]
    if (from_ports == 1).all() and (to_ports == 1).all():
        return _only_ports(network, distance_between, cables[start[src]], cables[start[dst]], far)
    row = np.repeat(np.arange(len(src)), from_ports * to_ports)
    begins = np.cumsum(from_ports * to_ports) - from_ports * to_ports
    which = np.arange(len(row)) - begins[row]
    first = cables[start[src[row]] + which // to_ports[row]]
    last = cables[start[dst[row]] + which % to_ports[row]]
    leaves, enters = network.high[first], network.high[last]
    distance = np.where(leaves == enters, 0, distance_between(leaves, enters))
    nearest = np.full(len(src), far, dtype=distance.dtype)
    some = np.flatnonzero(from_ports * to_ports)
    if len(some):
        nearest[some] = np.minimum.reduceat(distance, begins[some])
    good = (distance == nearest[row]) & (distance < far)
    counts = np.bincount(row[good], minlength=len(src))
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    return Options(ends, first[good]), first[good], last[good]


def _only_ports(
    network: Network,
    distance_between: Callable[[Ints, Ints], NDArray[np.integer]],
    first: Ints,
    last: Ints,
    far: int,
) -> tuple[Options, Ints, Ints]:
    """``nearest_ports`` where nothing is to be chosen: whether each pair's only ports are joined."""
    leaves, enters = network.high[first], network.high[last]
    good = (leaves == enters) | (distance_between(leaves, enters) < far)
    ends = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(good)))
    return Options(ends, first[good]), first[good], last[good]


def _live_ports(network: Network) -> tuple[Longs, Ints]:
    """(start [nodes + 1], cables): the live cables of end points; switches have none here."""
    cables = np.flatnonzero(network.live & (network.low >= network.switches)).astype(np.int32)
    start = np.searchsorted(network.low[cables], np.arange(len(network.nodes) + 1))
    return start.astype(np.int64), cables


def port_numbers(network: Network) -> Longs:
    """[cables] the number of an end point's cable, counted switch after switch; 0 for other cables."""
    ports = np.flatnonzero(network.low >= network.switches)
    number = np.zeros(len(network.low), dtype=np.int64)
    number[ports[np.argsort(network.high[ports], kind="stable")]] = np.arange(len(ports))
    return number


def tier_divisors(network: Network) -> Longs:
    """[tiers] what a destination's number is divided by at a switch: the uplinks of the tiers below."""
    start, _ = network.up
    degree = np.diff(start[: network.switches + 1])
    tier = network.tier[: network.switches]
    divisor = np.ones(5, dtype=np.int64)
    for t in range(1, 4):
        divisor[t + 1] = divisor[t] * max(1, int(degree[tier == t].max(initial=1)))
    return divisor
