"""What the sets are called, and the bound of one size out of what holds for all sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.cost.bound.limit import Limit
from clusterlab.cost.bound.sets import Partition, Ranks, Side
from clusterlab.cost.types import Bound

_INSIDE_NAMES = {
    "island": "the accelerators joined with",
    "pcie": "the PCIe switches around",
    "socket": "the socket of",
}
_OUTSIDE_NAMES = {
    "domain": "the NVLink domain",
    "leaves": "the leaf group",
    "spines": "the spine group",
    "all": "what is joined with",
}
_PLURALS = {
    "device": "devices",
    "island": "islands of accelerators",
    "pcie": "groups of PCIe switches",
    "socket": "sockets",
    "host": "hosts",
    "domain": "NVLink domains",
    "leaves": "leaf groups",
    "spines": "spine groups",
    "all": "parts",
}


_BEST_KNOWN = (
    "host",
    "device",
    "copies",
    "domain",
    "leaves",
    "spines",
    "all",
    "island",
    "pcie",
    "socket",
)


@dataclass(frozen=True, slots=True)
class Limits:
    """A group's bound for every size: the limit per byte, and the latency. Neither is ever negative."""

    per_byte: Limit
    latency_us: float
    busbw_factor: float

    def at(self, size_bytes: float) -> Bound:
        """The bound of one size."""
        time_us = self.per_byte.us_per_byte * size_bytes
        reason = self.per_byte.reason
        if self.latency_us > time_us:
            time_us, reason = self.latency_us, "latency of the longest path"
        if time_us <= 0:
            return Bound(0.0, float("inf"), "nothing known limits it")
        return Bound(time_us, size_bytes / (time_us * 1e3) * self.busbw_factor, reason)


def side_name(ranks: Ranks, level: str, side: Side) -> str:
    """What the first of the sets that ``side`` stands for is called."""
    device = ranks.devices[side.first_rank]
    host = ranks.host_of[side.first_rank]
    if level == "device" or host is None:
        return device
    if level == "host":
        return host
    if level in _INSIDE_NAMES:
        return f"{_INSIDE_NAMES[level]} {device} ({_counted(side.ranks, 'rank')})"
    return f"{_OUTSIDE_NAMES[level]} of {host} ({_counted(side.ranks, 'rank')})"


def sets_name(partition: Partition) -> str:
    """What all sets of a level are called: ``the 4 hosts``."""
    return f"the {partition.sets} {_PLURALS[partition.level]}"


def tightest(limits: Mapping[str, Sequence[Limit]]) -> Limit:
    """The largest of the limits by level. Of equals the one people know best: a host before its socket."""
    found = [(level, limit) for level in _BEST_KNOWN for limit in limits.get(level, ())]
    largest = max((limit.us_per_byte for _, limit in found), default=0.0)
    for _, limit in found:
        if limit.us_per_byte >= largest * (1 - 1e-12):
            return limit if math.isinf(largest) else Limit(largest, limit.reason)
    return Limit(0.0, "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
