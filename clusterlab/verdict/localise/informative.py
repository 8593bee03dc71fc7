"""Which messages to measure next: those whose outcome the posterior knows least about. Pure.

The gain of a message is the mutual information, in bits, of "does it look slow" with what is at fault:
H(Σ p d) − Σ p H(d), where p is a component's probability and d the chance that its fault shows. A round
takes the best messages that have no rank in common and together fill no cable beyond its rate: what is
slow then has no other reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from clusterlab.cost.flows.rates import carried
from clusterlab.verdict.localise.cabling import NONE, Field
from clusterlab.verdict.localise.crossed import crossed
from clusterlab.verdict.localise.infer import SOUGHT, Posterior, alike, base_of
from clusterlab.verdict.localise.types import Crossed, Floats, Longs, Probe, Round, Way
from clusterlab.verdict.localise.ways import ways

_MOST_IN_POOL = 6000
_CERTAIN = 1e-9
_SHOWS_AT = 1.5
"""A fault shows when it slows by this many times the noise, or more often than not from there on."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Messages to choose from, each as if it ran alone: which components they touch, and per message the
    resources (``at[start[m]:start[m + 1]]``) with what it puts on each (GB/s over the resource's rate).
    ``alike`` [components] numbers those that no message tells apart.
    """

    probes: tuple[Probe, ...]
    crossed: Crossed
    start: Longs
    at: Longs
    load: Floats
    alike: Longs


def pool_of(field: Field, *, way: Way = "send_recv", seed: int = 0, within: bool = False) -> Pool:
    """All pairs of ranks that can reach each other, or as many of them as can be looked at. ``within``: also
    those of one host.
    """
    probes = [
        Probe(way, pair)
        for pair in _pairs(len(field.host), way, seed)
        if (within or field.host[pair[0]] != field.host[pair[1]])
        and NONE not in (field.nodes[pair[0]], field.nodes[pair[1]])
    ]
    found = ways(field, probes, alone=True)
    part = found.incidence
    own = crossed(field.components, part)
    cables = part.resource < 2 * field.cables
    order = np.flatnonzero(cables)
    order = order[np.argsort(part.probe[order], kind="stable")]
    capacity = np.tile(carried(field.network), 2)[part.resource[order]]
    rate = found.GBps[part.probe[order]]
    with np.errstate(invalid="ignore", divide="ignore"):
        load = np.nan_to_num(found.part[order] * rate / capacity, nan=0.0, posinf=0.0)
    start = np.searchsorted(part.probe[order], np.arange(len(probes) + 1)).astype(np.int64)
    return Pool(tuple(probes), own, start, part.resource[order], load, alike(field.components, own))


def _pairs(ranks: int, way: Way, seed: int) -> list[tuple[int, int]]:
    both = way == "send_recv"
    if ranks * (ranks - 1) // (2 if both else 1) <= _MOST_IN_POOL:
        return [p for p in permutations(range(ranks), 2) if p[0] < p[1] or not both]
    draw = np.random.default_rng(seed)
    pairs = draw.integers(0, ranks, size=(2 * _MOST_IN_POOL, 2))
    if both:
        pairs = np.sort(pairs, axis=1)
    kept = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    draw.shuffle(kept)
    return [(int(a), int(b)) for a, b in kept[:_MOST_IN_POOL]]


@dataclass(frozen=True, eq=False)
class Unknown:
    """Something that is not known yet: which component a fault found is, or whether there is one more. Beside
    it are ``known`` faults (component, what is left of it).
    """

    one: Posterior
    known: tuple[tuple[int, float], ...] = ()


def gain_of(crossed: Crossed, unknown: Sequence[Unknown], noise: float) -> Floats:
    """[probes] bits that each would tell."""
    gain = np.zeros(crossed.probes)
    for some in unknown:
        base = base_of(crossed, some.known)
        gain += _bits(crossed, some.one.sought, _expected_left(some.one), (base, noise))
    return gain


def _bits(crossed: Crossed, weight: Floats, left: Floats, beside: tuple[Floats, float]) -> Floats:
    """[probes] the gain of each; ``weight`` and ``left`` [components]; what is slow already tells nothing."""
    c, (base, noise) = crossed.component, beside
    through = left[c] if crossed.chance else 1 - crossed.share * (1 - left[c])
    slower = np.log(np.clip(through / crossed.full, 1e-3, 1.0)) - base[crossed.probe]
    shows = _shows(np.maximum(-slower, 0.0) / max(noise, 0.02))
    if crossed.chance:
        shows = shows * crossed.share
    p = weight[c]
    n = crossed.probes
    slow = np.bincount(crossed.probe, weights=p * shows, minlength=n)
    sure = np.bincount(crossed.probe, weights=p * _entropy(shows), minlength=n)
    found: Floats = np.maximum(_entropy(np.clip(slow, 0.0, 1.0)) - sure, 0.0)
    return found


def _shows(steps: Floats) -> Floats:
    """The chance that a fault of so many times the noise is seen: a logistic curve in place of erf."""
    return 1 / (1 + np.exp(-1.7 * (steps - _SHOWS_AT))) * (steps > 0.2)


def _entropy(p: Floats) -> Floats:
    q = np.clip(p, _CERTAIN, 1 - _CERTAIN)
    found: Floats = -(q * np.log2(q) + (1 - q) * np.log2(1 - q))
    return found


def next_round(
    field: Field, pool: Pool, unknown: Sequence[Unknown], noise: float, seed: int
) -> tuple[Round, float]:
    """The most informative messages that fit beside each other, and the sum of their gains in bits. Those
    that show parts which nothing has shown yet come first: they are few, and the many would fill the round.
    """
    gain = gain_of(pool.crossed, unknown, noise)
    jitter = np.random.default_rng(seed).random(len(gain)) * 1e-3
    order = np.lexsort((-gain * (1 + jitter), _unseen(pool, unknown[-1]) == 0))
    chosen = _packed(field, pool, order[gain[order] > 0])
    return tuple(pool.probes[m] for m in chosen), float(gain[chosen].sum()) if chosen else 0.0


def _unseen(pool: Pool, last: Unknown) -> Floats:
    """[messages] how many parts each would show that no measurement has."""
    c = pool.crossed
    shows = base_of(c, last.known)[c.probe] > np.log(SOUGHT)
    new = (last.one.touched[c.component] == 0) & shows
    count = np.bincount(c.probe, weights=new.astype(np.float64), minlength=c.probes)
    return count.astype(np.float64)


def _expected_left(one: Posterior) -> Floats:
    """[components] what is most likely left; of what was not looked at, the middle of what is sought."""
    return np.where(one.touched > 0, np.minimum(one.left, SOUGHT), 0.5)


def _packed(field: Field, pool: Pool, order: Longs) -> list[int]:
    load = np.zeros(2 * field.cables)
    busy = np.zeros(len(field.host), dtype=bool)
    left = len(field.host)
    chosen: list[int] = []
    ranks = np.array([p.ranks for p in pool.probes], dtype=np.int64)
    for m in order.tolist():
        a, b = ranks[m]
        if busy[a] or busy[b]:
            continue
        part = slice(pool.start[m], pool.start[m + 1])
        at, own = pool.at[part], pool.load[part]
        if (load[at] + own > 1 + 1e-6).any():
            continue
        load[at] += own
        busy[a] = busy[b] = True
        chosen.append(m)
        left -= 2
        if left < 2:
            break
    return chosen
