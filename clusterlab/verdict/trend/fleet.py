"""Single nodes that are slow where every run is on other ones: runs with a host beside runs without it. Pure.

A job that gets four of a hundred nodes meets a slow one now and then, so that the runs as a whole do not
step. For every host its last OWN runs among the last WINDOW runs are held against the runs without it there:
medians of paces, whose difference is uncertain by what runs differ by. Of all hosts and cells asked, chance
explains those named with less than 1 % (Holm); and they differ by ``tolerance`` and more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from clusterlab.verdict.against.changes import holm
from clusterlab.verdict.against.noise import Noise
from clusterlab.verdict.trend.model import Key, Once, Part, SlowNode
from clusterlab.verdict.trend.steps import LEAST, split

if TYPE_CHECKING:
    from clusterlab.verdict.trend.model import Numbers

WINDOW = 120
OWN = 10
_OF_MEDIAN = math.pi / 2
_Z95 = 1.96
_NORMAL = NormalDist()


class _Asked(NamedTuple):
    key: Key
    host: str
    value: float
    error: float
    own: int
    others: int


def slow_nodes(
    runs: Sequence[Once],
    parts: Mapping[Key, Part],
    noise: Mapping[str, Noise],
    tolerance: float,
) -> tuple[SlowNode, ...]:
    """The slow ones of every cell, the slowest first."""
    import numpy as np

    asked = []
    for key, part in parts.items():
        paces = part.paces - part.levels()
        late = max(0, len(paces) - WINDOW)
        for host, own in _places(runs, part, late).items():
            without = np.ones(len(paces) - late, dtype=bool)
            without[np.array(own, dtype=np.int64) - late] = False
            if len(own) < LEAST or without.sum() < LEAST:
                continue
            mine, other = paces[own[-OWN:]], paces[late:][without]
            error = noise[key[2]].between * math.sqrt(_OF_MEDIAN * (1 / len(mine) + 1 / len(other)))
            value = float(np.median(mine) - np.median(other))
            asked.append(_Asked(key, host, value, max(error, 1e-9), len(mine), len(other)))
    surely = holm([1 - _NORMAL.cdf(one.value / one.error) for one in asked])
    found = [
        _node(one, parts[one.key], _places(runs, parts[one.key], 0)[one.host])
        for one, sure in zip(asked, surely, strict=True)
        if sure and one.value >= math.log1p(tolerance)
    ]
    return tuple(sorted(found, key=lambda node: -node.ratio))


def _places(runs: Sequence[Once], part: Part, late: int) -> dict[str, list[int]]:
    """Host to the places of its runs among the part's, from ``late`` on."""
    found: dict[str, list[int]] = {}
    for place, run in enumerate(part.runs[late:].tolist(), start=late):
        for host in runs[run].hosts:
            found.setdefault(host, []).append(place)
    return found


def _node(one: _Asked, part: Part, at: Sequence[int]) -> SlowNode:
    since, last_before = _since(part.paces - part.levels(), at, one.value)
    return SlowNode(
        host=one.host,
        cell=one.key,
        ratio=math.exp(one.value),
        low=math.exp(one.value - _Z95 * one.error),
        high=math.exp(one.value + _Z95 * one.error),
        runs=one.own,
        without=one.others,
        since=None if since is None else int(part.runs[since]),
        last_before=None if last_before is None else int(part.runs[last_before]),
    )


def _since(paces: Numbers, at: Sequence[int], value: float) -> tuple[int | None, int | None]:
    """The first slow run of a host and the last one before it, as places of the part; None where it has been
    as slow in all its runs.
    """
    import numpy as np

    own = paces[list(at)]
    first = split(own) if len(own) >= 2 * LEAST else 0
    if not first or np.median(own[:first]) > value / 2:
        return None, None
    return at[first], at[first - 1]
