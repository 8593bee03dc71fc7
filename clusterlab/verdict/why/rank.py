"""Causes ranked: probability of each code given the curve, over all its variants. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.likelihood import Explained, Spread, explained
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


@dataclass(frozen=True, slots=True)
class Ranked:
    """``probability`` of a code among all; its best variant, and how that fits."""

    code: str
    probability: float
    best: Candidate
    fit: Explained


def rank(scene: Scene, candidates: Iterable[Candidate]) -> list[Ranked]:
    """Every code that any candidate stands for, most probable first; UNKNOWN among them."""
    found: defaultdict[str, list[tuple[Candidate, Explained]]] = defaultdict(list)
    every = [one for candidate in candidates for one in _ways(scene, candidate)]
    badly = [_under(scene, one, SPREADS[1]) for one in every]
    least = max(fit.log_likelihood for fit in badly) - _FAR_BEHIND
    for one, fit in zip(every, badly, strict=True):
        far = fit.log_likelihood < least
        found[one.code].append((one, fit if far else _explained(scene, one, fit)))
    unknown = Candidate(UNKNOWN, "any smooth slowdown", scene.expected)
    found[UNKNOWN] = [(unknown, explained(scene.data, scene.expected, _ANYTHING))]
    trust = min(1.0, TRUSTED_POINTS / len(scene.data))
    logs = {
        code: math.log(prior(code, scene)) + _evidence(variants, trust)
        for code, variants in found.items()
    }
    total = _log_sum(list(logs.values()))
    ranked = []
    for code, variants in found.items():
        best, fit = max(variants, key=lambda v: v[1].log_likelihood + math.log(v[0].weight))
        ranked.append(Ranked(code, math.exp(logs[code] - total), best, fit))
    return sorted(ranked, key=lambda one: -one.probability)


def _ways(scene: Scene, candidate: Candidate) -> Sequence[Candidate]:
    """A resource with less to give may slow all that grows with the bytes, as the model has it, add no more
    than the bytes' own time, or (seldom) hide behind what else takes time.
    """
    if candidate.code not in _OF_A_RESOURCE:
        return (candidate,)
    added = replace(candidate, log_curve=scene.added(candidate.log_curve))
    hidden = replace(
        candidate,
        log_curve=scene.sharp(candidate.log_curve),
        weight=_HIDDEN * candidate.weight,
    )
    return candidate, added, hidden


_HIDDEN = 0.3

_OF_A_RESOURCE = frozenset(
    {
        "P2P_DISABLED", "NVLS_OFF", "SLOW_LINK", "NIC_HALF_WIDTH", "GDR_OFF", "ACS_IOMMU_DETOUR",
        "TCP_FALLBACK", "WRONG_NIC_OR_RAIL", "FEWER_NICS_THAN_EXPECTED", "ECMP_COLLISIONS",
        "MISPLACED_RANKS", "ALGO_FORCED", "PROTO_FORCED", "TOO_FEW_CHANNELS", "TOO_FEW_QPS",
    }
)  # fmt: skip


def _explained(scene: Scene, candidate: Candidate, badly: Explained) -> Explained:
    """Over both kinds of systems, ``badly`` known ones looked at already; the fit is of the likelier one."""
    both = [_under(scene, candidate, SPREADS[0]), badly]
    likelier = max(both, key=lambda one: one.log_likelihood)
    mean = _log_sum([one.log_likelihood for one in both]) - math.log(len(both))
    return replace(likelier, log_likelihood=mean)


def _under(scene: Scene, candidate: Candidate, spread: Spread) -> Explained:
    wider = replace(
        spread,
        latency=_wider(spread.latency, candidate.latency),
        rate=_wider(spread.rate, candidate.rate),
        model=_wider(spread.model, candidate.model),
        point=_wider(spread.point, candidate.point),
    )
    return explained(scene.data, candidate.log_curve, wider, candidate.inside)


def _wider(width: float, more: float) -> float:
    return math.hypot(width, more) if more >= 0 else max(0.05, width + more)


def _evidence(variants: Sequence[tuple[Candidate, Explained]], trust: float) -> float:
    """Mean likelihood over a code's variants, in logarithms: a cause that can be anything pays for it."""
    weights = np.array([candidate.weight for candidate, _ in variants])
    among = max(weights.sum(), *(candidate.among for candidate, _ in variants))
    logs = trust * np.array([fit.log_likelihood for _, fit in variants])
    logs = logs + np.log(weights / among)
    return _log_sum(list(logs))


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    return most + math.log(sum(math.exp(one - most) for one in logs))
