"""On which nodes a change is: runs since it with a host beside runs without it. Pure.

The difference of two medians of run paces is uncertain by what runs differ by (``against/noise.py``); of all
hosts asked, those are named that chance explains with less than 1 % together (Holm), by half of the whole
change or more. Hosts that run together are named together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

from clusterlab.verdict.against.changes import holm
from clusterlab.verdict.trend.model import Node, Nodes, Once

if TYPE_CHECKING:
    from clusterlab.verdict.trend.model import Numbers

_OF_MEDIAN = math.pi / 2  # variance of a median over that of a mean
_Z95 = 1.96
_LEAST_SHARE = 0.5
_LEAST = 2
"""Runs of a host from which on it is asked."""
_NORMAL = NormalDist()


def nodes_of(runs: Sequence[Once], paces: Numbers, change: float, between: float) -> Nodes:
    """``runs`` since a change of ``change`` (log ratio), their ``paces`` (log ratios to before it), and
    ``between``: the standard deviation of one run's pace.
    """
    import numpy as np

    hosts = sorted({host for run in runs for host in run.hosts})
    if not hosts:
        return Nodes(why="the runs do not say on which hosts they were")
    has = {host: np.array([host in run.hosts for run in runs]) for host in hosts}
    asked = [host for host in hosts if _LEAST <= has[host].sum() < len(runs)]
    if not asked:
        alike = all(has[host].all() for host in hosts)
        why = "all runs since then were on the same hosts" if alike else "too few runs of each host"
        return Nodes(why=f"{why}: {named(hosts)}")
    sign = 1.0 if change > 0 else -1.0
    found = []
    for host in asked:
        own, other = paces[has[host]], paces[~has[host]]
        value = float(np.median(own) - np.median(other))
        error = between * math.sqrt(_OF_MEDIAN * (1 / len(own) + 1 / len(other)))
        found.append((host, value, max(error, 1e-9), len(own), len(other)))
    surely = holm([1 - _NORMAL.cdf(sign * value / error) for _, value, error, _, _ in found])
    slow = [
        Node(
            host,
            own,
            other,
            math.exp(value),
            math.exp(value - _Z95 * error),
            math.exp(value + _Z95 * error),
        )
        for (host, value, error, own, other), sure in zip(found, surely, strict=True)
        if sure and sign * value >= _LEAST_SHARE * abs(change)
    ]
    if not slow:
        return Nodes(why="it is not with single hosts: runs with and without each are alike")
    slow.sort(key=lambda node: -sign * math.log(node.ratio))
    clear = ~np.any([has[node.host] for node in slow], axis=0)
    as_before = False
    if clear.any():
        error = between * math.sqrt(_OF_MEDIAN / int(clear.sum()))
        level = sign * float(np.median(paces[clear]))
        as_before = level < max(_Z95 * error, _LEAST_SHARE * abs(change))
    return Nodes(tuple(slow), as_before)


def named(hosts: Sequence[str], most: int = 4) -> str:
    """The first few, and how many more."""
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return ", ".join(hosts[:most]) + more
