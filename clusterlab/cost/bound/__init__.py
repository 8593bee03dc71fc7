"""A lower bound on time: what no schedule can beat on this fabric.

Three arguments, each valid on its own; the largest counts.

* Cuts (``cuts.py``). Whatever the algorithm, some bytes must leave a set of ranks and some must enter it
  (``demand.py``); they pass its border. Checked for the sets that the fabric's tiers cut off (``sets.py``).
  For all_reduce this is S each way, which also holds with reduction and multicast in the network.
* Volume (``volume.py``). Where nothing on the way reduces or multicasts, every element needs a number of
  messages (all_reduce: m-1 to meet, m-1 to be known everywhere), and all exits together carry only so much.
* Latency (``latency.py``). A byte needs the time of its quickest path.

A schedule here is any exchange of messages over the fabric's links in which data is combined or copied only
by the ranks and by devices marked ``in_network`` (NVSwitch from its third generation, SHARP). CPUs,
PCIe switches and GPUs without a rank pass messages on. A library that reduces on host CPUs (BytePS) makes
these ranks. All paths count, also those no library takes (PCIe beside NVLink). Links count with their wire
rate: software may fall short of it, nothing exceeds it. An unknown rate limits nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from clusterlab.core.collectives import busbw_factor
from clusterlab.core.errors import UsageError
from clusterlab.cost.bound.cuts import cut_limits
from clusterlab.cost.bound.demand import bytes_across, transfers
from clusterlab.cost.bound.latency import latency_us
from clusterlab.cost.bound.limit import Limit
from clusterlab.cost.bound.report import Limits, sets_name, side_name, tightest
from clusterlab.cost.bound.sets import Partition, Ranks
from clusterlab.cost.bound.skeleton import skeleton
from clusterlab.cost.bound.uneven import moved, shares, uneven_limits
from clusterlab.cost.bound.volume import copies, volume_limits
from clusterlab.cost.recall import recalled
from clusterlab.cost.types import Bound
from clusterlab.topology.fabric import Fabric

__all__ = ["Limits", "bound_limits", "bytes_across", "lower_bound"]


def lower_bound(
    fabric: Fabric,
    devices: Sequence[str],
    collective: str,
    size_bytes: float,
    *,
    root: int = 0,
    copy_GBps: float | None = None,
    uneven: str | None = None,
) -> Bound:
    """The bound for one group whose ranks are at ``devices``, in rank order; ``root`` indexes them.

    ``copy_GBps`` is what one core copies at best, for memory links whose rate the fabric leaves open.
    ``uneven`` names how the parts of an all_to_all_v differ. Raises UsageError where ranks are cut off from
    each other.
    """
    limits = bound_limits(
        fabric, devices, collective, root=root, copy_GBps=copy_GBps, uneven=uneven
    )
    return limits.at(size_bytes)


def bound_limits(
    fabric: Fabric,
    devices: Sequence[str],
    collective: str,
    *,
    root: int = 0,
    copy_GBps: float | None = None,
    uneven: str | None = None,
) -> Limits:
    """What holds for every size, kept by the fabric: a sweep asks for many. As ``lower_bound`` otherwise."""
    group = recalled(fabric, "bound", devices, partial(_Group, fabric))
    key = (collective, root, copy_GBps, uneven)
    found = group.limits.get(key)
    if found is None:
        found = group.limits[key] = (
            _limits(group, collective, root, copy_GBps)
            if uneven is None
            else _uneven(group, collective, uneven, copy_GBps)
        )
    return found


class _Group:
    """One group's ranks, their sets at every level, and the limits found so far."""

    def __init__(self, fabric: Fabric, devices: tuple[str, ...]) -> None:
        self.ranks = Ranks(fabric, skeleton(fabric), devices)
        self.partitions: tuple[Partition, ...] = tuple(self.ranks.partitions())
        self.limits: dict[tuple[str, int, float | None, str | None], Limits] = {}


def _uneven(group: _Group, collective: str, uneven: str, copy_GBps: float | None) -> Limits:
    """Of parts that differ: what each device and host has for the others."""
    ranks = group.ranks
    n = len(ranks.devices)
    if n < 2:
        return Limits(Limit(0.0, ""), 0.0, busbw_factor(collective, n))
    matrix = shares(uneven, n)
    limits = {
        p.level: list(uneven_limits(ranks, p, matrix, partial(side_name, ranks, p.level)))
        for p in group.partitions
    }
    limits["copies"] = list(copies(ranks, moved(matrix), copy_GBps))
    worst = _tightest({level: found for level, found in limits.items() if found}, ranks)
    path_us = 0.0
    if ranks.skeleton.latency_known:
        talking = [(i, j) for i in range(n) for j in range(n) if i != j and matrix[i][j] > 0]
        path_us = latency_us(ranks.fabric, ranks.devices, collective, 0, talking)
    return Limits(worst, path_us, busbw_factor(collective, n))


def _tightest(limits: Mapping[str, Sequence[Limit]], ranks: Ranks) -> Limit:
    worst = tightest(limits)
    if math.isinf(worst.us_per_byte):
        raise UsageError(
            f"no path: there are no {worst.reason}",
            where=f"fabric {ranks.fabric.name}",
            expected="links that are up between all ranks",
        )
    return worst


def _limits(group: _Group, collective: str, root: int, copy_GBps: float | None) -> Limits:
    ranks = group.ranks
    n = len(ranks.devices)
    if n < 2:
        return Limits(Limit(0.0, ""), 0.0, busbw_factor(collective, n))
    share = transfers(collective, n, one_rank_each=True)
    limits = {"copies": list(copies(ranks, share, copy_GBps))}
    for partition in group.partitions:
        level = partition.level
        limits[level] = [
            *cut_limits(partition, collective, root, partial(side_name, ranks, level)),
            *volume_limits(partition, collective, sets_name(partition)),
        ]
    worst = _tightest(limits, ranks)
    path_us = 0.0
    if ranks.skeleton.latency_known:
        path_us = latency_us(ranks.fabric, ranks.devices, collective, root)
    return Limits(worst, path_us, busbw_factor(collective, n))
