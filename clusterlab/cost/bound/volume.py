"""Volume: where only ranks combine or copy data, all messages together need all exits together.

A set of ranks with the switches that reduce among them counts as one party (contract it: a schedule of the
ranks is one of the parties), so NVLS inside hosts and a network without SHARP between them leave 2 (N-1)/N
of the size per host to send. Where a switch between the sets reduces or multicasts, this says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterlab.cost.bound.demand import transfers
from clusterlab.cost.bound.limit import Limit
from clusterlab.cost.bound.sets import Partition, Ranks
from clusterlab.cost.bound.skeleton import Capacity, wire_GBps
from clusterlab.topology.parts import Link


def volume_limits(partition: Partition, collective: str, name: str) -> Iterator[Limit]:
    """All messages between the sets of one level, over all exits and over all entries."""
    if not partition.closed:
        return
    one_rank_each = partition.sets == len(partition.side_of)
    share = transfers(collective, partition.sets, one_rank_each=one_rank_each)
    if share > 0:
        out, into = partition.total_GBps()
        yield Limit.across(share, out, f"all links out of {name}")
        yield Limit.across(share, into, f"all links into {name}")


def copies(ranks: Ranks, share: float, copy_GBps: float | None) -> Iterator[Limit]:
    """Ranks that share a device reach each other by copies in memory, which its cores make: ``share`` of the
    size in all. One core copies ``copy_GBps`` where the fabric leaves that open.
    """
    ends = dict.fromkeys(ranks.devices)
    n = len(ranks.devices)
    if len(ends) == n or ranks.skeleton.in_network:
        return
    exits = Capacity()
    for device, host in dict(zip(ranks.devices, ranks.host_of, strict=True)).items():
        if host is not None and ranks.skeleton.class_of(host).in_network:
            return
        for link in ranks.fabric.links_from(device):
            exits.out += _copy_GBps(link, copy_GBps)
    yield Limit.across(share, exits.out, "copies by the cores")


def _copy_GBps(link: Link, copy_GBps: float | None) -> float:
    if link.link_class == "memory" and link.GBps is None and copy_GBps is not None:
        return copy_GBps * link.multiplicity * link.health
    return wire_GBps(link)
