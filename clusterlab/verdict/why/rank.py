"""Causes ranked: probability of each code given the curve, over all its variants. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.likelihood import (
    Array,
    Explained,
    Spread,
    Widths,
    explained,
    log_likelihoods,
)
from clusterlab.verdict.why.priors import prior
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.taxonomy import UNKNOWN

SPREADS = (
    Spread(latency=0.12, rate=0.025, model=0.08, point=0.03),
    Spread(latency=0.4, rate=0.08, model=0.3, point=0.07),
)
"""Of sites and machines that the model knows well, and of others: half of the systems each."""

TRUSTED_POINTS = 14.0
"""A table counts as no more points than this: what models of faults get wrong is alike over many sizes, more
than the covariance says, and repeats of a size do not make a cause more likely.
"""

_FAR_BEHIND = 150.0
"""A curve so much less likely for a badly known system than another is not tried for a well known one."""

_ANYTHING = Spread(latency=1.2, rate=0.9, model=1.2, point=0.08)
"""Of a cause that nobody knows: any smooth curve."""


_CHANGE = 0.1
"""What a change does between floor and plateau is known no better, whatever the cause: were one cause known
worse than another, it would fit what the model gets wrong, and win by that.
"""


@dataclass(frozen=True, slots=True)
class Ranked:
    """``probability`` of a code among all; its best variant, and how that fits."""

    code: str
    probability: float
    best: Candidate
    fit: Explained


def rank(scene: Scene, candidates: Iterable[Candidate]) -> list[Ranked]:
    """Every code that any candidate stands for, most probable first; UNKNOWN among them."""
    every = [unsure(one) for candidate in candidates for one in _ways(scene, candidate)]
    found: defaultdict[str, list[tuple[Candidate, float]]] = defaultdict(list)
    for one, likelihood in zip(every, _likelihoods(scene, every), strict=True):
        found[one.code].append((one, likelihood))
    unknown = explained(scene.data, scene.expected, _ANYTHING)
    anything = Candidate(UNKNOWN, "any smooth slowdown", scene.expected)
    found[UNKNOWN] = [(anything, unknown.log_likelihood)]
    trust = min(1.0, TRUSTED_POINTS / len(scene.data))
    logs = {
        code: math.log(prior(code, scene)) + _evidence(variants, trust)
        for code, variants in found.items()
    }
    total = _log_sum(list(logs.values()))
    ranked = []
    for code, variants in found.items():
        best, _ = max(variants, key=lambda v: v[1] + math.log(v[0].weight))
        fit = unknown if code == UNKNOWN else _explained(scene, best)
        ranked.append(Ranked(code, math.exp(logs[code] - total), best, fit))
    return sorted(ranked, key=lambda one: -one.probability)


def unsure(candidate: Candidate) -> Candidate:
    """At least as unsure of what the change does as of any other's; but for a window, which is anything."""
    if candidate.inside is not None:
        return candidate
    resource = candidate.code in _OF_A_RESOURCE
    return replace(
        candidate,
        model=max(candidate.model, _CHANGE),
        latency=max(candidate.latency, _CHANGE) if resource else candidate.latency,
    )


def _likelihoods(scene: Scene, every: Sequence[Candidate]) -> Array:
    """Log likelihood of each, a mean over both kinds of systems."""
    if not every:
        return np.zeros(0)
    badly = _under(scene, every, SPREADS[1])
    near = np.flatnonzero(badly >= badly.max() - _FAR_BEHIND)
    found = badly.copy()
    well = _under(scene, [every[int(i)] for i in near], SPREADS[0])
    found[near] = np.logaddexp(well, badly[near]) - math.log(2)
    return found


def _under(scene: Scene, every: Sequence[Candidate], spread: Spread) -> Array:
    """Log likelihood of each in systems of one kind."""
    nothing = np.zeros(len(scene.data))
    return log_likelihoods(
        scene.data,
        np.array([one.log_curve for one in every]),
        Widths(
            np.array([_wider(spread.latency, one.latency) for one in every]),
            np.array([_wider(spread.rate, one.rate) for one in every]),
            np.array([_wider(spread.model, one.model) for one in every]),
            np.array([_wider(spread.point, one.point) for one in every]),
        ),
        np.array([nothing if one.inside is None else one.inside for one in every]),
    )


def _ways(scene: Scene, candidate: Candidate) -> Sequence[Candidate]:
    """A resource with less to give may slow all that grows with the bytes, as the model has it; it may add
    the bytes' own time, and of what else grows with them none, half or all in proportion; or (seldom) it
    hides behind what else takes time.
    """
    if candidate.code not in _OF_A_RESOURCE:
        return (candidate,)
    share = candidate.weight / len(_ALONG)  # these are one way, known in part
    added = [
        replace(candidate, log_curve=scene.added(candidate.log_curve, along), weight=share)
        for along in _ALONG
    ]
    hidden = replace(
        candidate,
        log_curve=scene.sharp(candidate.log_curve),
        weight=_HIDDEN * candidate.weight,
    )
    return candidate, *added, hidden


_ALONG = (0.0, 0.5, 1.0)
_HIDDEN = 0.3

_OF_A_RESOURCE = frozenset(
    {
        "P2P_DISABLED", "NVLS_OFF", "SLOW_LINK", "NIC_HALF_WIDTH", "GDR_OFF", "ACS_IOMMU_DETOUR",
        "TCP_FALLBACK", "WRONG_NIC_OR_RAIL", "FEWER_NICS_THAN_EXPECTED", "ECMP_COLLISIONS",
        "MISPLACED_RANKS", "ALGO_FORCED", "PROTO_FORCED", "TOO_FEW_CHANNELS", "TOO_FEW_QPS",
    }
)  # fmt: skip


def _explained(scene: Scene, candidate: Candidate) -> Explained:
    """How it fits in the kind of systems that is likelier."""
    both = [
        explained(
            scene.data,
            candidate.log_curve,
            Spread(
                latency=_wider(spread.latency, candidate.latency),
                rate=_wider(spread.rate, candidate.rate),
                model=_wider(spread.model, candidate.model),
                point=_wider(spread.point, candidate.point),
            ),
            candidate.inside,
        )
        for spread in SPREADS
    ]
    return max(both, key=lambda one: one.log_likelihood)


def _wider(width: float, more: float) -> float:
    return math.hypot(width, more) if more >= 0 else max(0.05, width + more)


def _evidence(variants: Sequence[tuple[Candidate, float]], trust: float) -> float:
    """Mean likelihood over a code's variants, in logarithms: a cause that can be anything pays for it."""
    weights = np.array([candidate.weight for candidate, _ in variants])
    among = max(weights.sum(), *(candidate.among for candidate, _ in variants))
    logs = trust * np.array([likelihood for _, likelihood in variants])
    logs = logs + np.log(weights / among)
    return _log_sum(list(logs))


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(sum(math.exp(one - most) for one in logs))
