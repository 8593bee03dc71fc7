"""Causes in the library: what is forced, too few channels, a defect in a window of sizes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clusterlab.core.sizes import human_size
from clusterlab.cost.nccl.words import COLLECTIVES, NCCL_ALGORITHMS, NCCL_PROTOCOLS
from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.likelihood import Array
from clusterlab.verdict.why.scene import Scene

_NARROW = (1, 2, 4, 8)
_LEAST_DIFFERENCE = 0.02
_LL_KNOWN_TO = 0.18
"""LL's rate depends on how fast threads poll: 0.3 to 0.5 of the links' on what was measured."""

_OTHERS_KNOWN_TO = 0.14

_SELDOM = {"LL128": 0.2}
"""NCCL takes it by itself wherever it is safe: there is little reason to force it, and on one node its curve
is that of multicast switched off.
"""


def of_library(scene: Scene) -> Iterator[Candidate]:
    """Candidates that NCCL's variables, or a defect, make."""
    if scene.collective in COLLECTIVES:
        yield from _forced(scene, "ALGO_FORCED", "NCCL_ALGO", NCCL_ALGORITHMS.values())
        if scene.collective == "all_reduce":
            yield from _other_algorithm(scene)
        yield from _forced(scene, "PROTO_FORCED", "NCCL_PROTO", NCCL_PROTOCOLS.values())
    yield from _channels(scene)
    yield from _windows(scene)


def _other_algorithm(scene: Scene) -> Iterator[Candidate]:
    """What any tree or ring may do to a plateau: the model knows few of them measured."""
    plain = scene.under({"NCCL_NVLS_ENABLE": "0"}) if scene.uses_nvls else scene.expected
    if plain is None:
        return
    nbytes = scene.bytes_share(plain)
    for left in (0.8, 0.65, 0.5):
        curve = plain - math.log(left) * nbytes
        what = f"an algorithm that fills {left:.0%} of what a ring does"
        yield Candidate("ALGO_FORCED", what, curve, rate=0.08, weight=0.5)


def _forced(scene: Scene, code: str, variable: str, values: object) -> Iterator[Candidate]:
    for value in values:  # type: ignore[attr-defined]
        if value.startswith("CollNet"):
            continue
        curve = scene.under({variable: value})
        if curve is not None and _differs(curve, scene.expected):
            yield Candidate(
                code,
                f"{variable}={value}",
                curve,
                weight=_SELDOM.get(value, 1.0),
                rate=_LL_KNOWN_TO if value == "LL" else _OTHERS_KNOWN_TO,
                latency=0.15,
                model=0.1,
            )
            if value in _LATE:
                yield from _hidden_latency(scene, code, f"{variable}={value}", curve)


_LATE = ("Ring", "Simple")
"""What costs latency more than rate, and much or little of it: a step's time is a site's own."""


def _hidden_latency(scene: Scene, code: str, variant: str, log_curve: Array) -> Iterator[Candidate]:
    """That latency, more or less than the model has it, at every size where nothing else takes longer."""
    for times in (0.5, 0.7, 1.0, 1.4, 2.0):
        latency = float(log_curve.min()) + math.log(times)
        if latency < float(scene.expected.min()) + _SHOWS:
            continue
        what = f"{variant}, {math.exp(latency):.0f} µs where calls are short"
        for sharp in (1.7, 3.0):
            curve = np.logaddexp(sharp * scene.expected, sharp * latency) / sharp
            yield Candidate(code, what, curve, weight=0.1, latency=-0.02)


_SHOWS = math.log(1.3)


def _channels(scene: Scene) -> Iterator[Candidate]:
    messages = scene.collective not in COLLECTIVES
    for count in _NARROW:
        variables = {"NCCL_MAX_NCHANNELS": str(count)}
        if scene.uses_nvls:
            variables["NCCL_NVLS_NCHANNELS"] = str(count)
        if messages and scene.nodes > 1:
            variables["NCCL_NCHANNELS_PER_NET_PEER"] = str(count)
        curve = scene.under(variables)
        if curve is not None and _differs(curve, scene.expected):
            yield Candidate(
                "TOO_FEW_CHANNELS", f"NCCL_MAX_NCHANNELS={count}", curve, rate=0.15, model=0.05
            )
    nbytes = scene.bytes_share(scene.expected)
    for share in (0.88, 0.78, 0.65):
        curve = scene.expected - math.log(share) * nbytes
        weight = 0.6 if scene.nodes > 1 else 0.15
        what = f"channels that fill {share:.0%} of the links"
        yield Candidate("TOO_FEW_CHANNELS", what, curve, weight=weight, rate=0.03)


def _windows(scene: Scene) -> Iterator[Candidate]:
    """Slow or erratic between two sizes, ordinary on both sides: the likeliest few of all such windows."""
    log_size, ratio = scene.data.log_size, scene.ratio
    distinct = np.unique(log_size)
    found = []
    for width in _WIDTHS:
        for first in range(1, len(distinct) - width - 1):
            low, high = distinct[first], distinct[first + width - 1]
            inside = _window(log_size, low, high)
            beside = _window(log_size, distinct[first - 1], distinct[first + width]) - inside
            jump = float(np.mean(ratio[inside > 0]) - np.mean(ratio[beside > 0]))
            even = float(np.std(ratio[inside > 0])) if width > 1 else 0.0
            found.append((jump * math.sqrt(width) - even, low, high, inside))
    found.sort(key=lambda one: -one[0])
    for _, low, high, inside in found[:_TRIED]:
        for factor in _FACTORS:
            yield Candidate(
                "LIBRARY_BUG",
                f"{factor:g} times slower from {human_size(round(math.exp(low)))} to "
                f"{human_size(round(math.exp(high)))}",
                scene.expected + math.log(factor) * inside,
                inside=inside,
                among=len(found) * len(_FACTORS),
            )


_WIDTHS = (2, 3, 4, 5, 7)
_FACTORS = (1.7, 2.7, 4.5, 8.0)
_TRIED = 6


def _window(log_size: Array, low: float, high: float) -> Array:
    """1 between ``low`` and ``high``, 0 outside."""
    return np.asarray((log_size >= low - 0.1) & (log_size <= high + 0.1), dtype=np.float64)


def _differs(curve: Array, expected: Array) -> bool:
    return bool(np.max(curve - expected) > _LEAST_DIFFERENCE)
