"""Causes in the library: what is forced, too few channels, a defect in a window of sizes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clusterlab.cost.nccl.words import COLLECTIVES, NCCL_ALGORITHMS, NCCL_PROTOCOLS
from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.likelihood import Array
from clusterlab.verdict.why.scene import Scene

_NARROW = (1, 2, 4, 8)
_LEAST_DIFFERENCE = 0.02
_EDGE = math.log(1.6)


def of_library(scene: Scene) -> Iterator[Candidate]:
    """Candidates that NCCL's variables, or a defect, make."""
    if scene.collective in COLLECTIVES:
        yield from _forced(scene, "ALGO_FORCED", "NCCL_ALGO", NCCL_ALGORITHMS.values())
        yield from _forced(scene, "PROTO_FORCED", "NCCL_PROTO", NCCL_PROTOCOLS.values())
    yield from _channels(scene)
    yield from _windows(scene)


def _forced(scene: Scene, code: str, variable: str, values: object) -> Iterator[Candidate]:
    for value in values:  # type: ignore[attr-defined]
        if value.startswith("CollNet"):
            continue
        curve = scene.under({variable: value})
        if curve is not None and _differs(curve, scene.expected):
            yield Candidate(code, f"{variable}={value}", curve, rate=0.04, model=0.05)


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
        weight = 1.5 if scene.nodes > 1 else 0.5
        what = f"channels that fill {share:.0%} of the links"
        yield Candidate("TOO_FEW_CHANNELS", what, curve, weight=weight, rate=0.03)


def _windows(scene: Scene) -> Iterator[Candidate]:
    """Slow or erratic between two sizes, ordinary on both sides."""
    distinct = np.unique(scene.data.log_size)
    if len(distinct) < 6:
        return
    ends = distinct[2:-1:2]
    for i, low in enumerate(ends[:-1]):
        for high in ends[i + 1 :]:
            if high - low > math.log(512) + 0.1:
                continue
            inside = _window(scene.data.log_size, low, high)
            for factor in (1.7, 3.0, 6.0):
                yield Candidate(
                    "LIBRARY_BUG",
                    f"{factor:g} times slower from {math.exp(low):.0f} to {math.exp(high):.0f} B",
                    scene.expected + math.log(factor) * inside,
                    model=0.15,
                    point=0.1,
                )


def _window(log_size: Array, low: float, high: float) -> Array:
    """1 between ``low`` and ``high``, 0 outside."""
    return np.asarray((log_size >= low - 0.1) & (log_size <= high + 0.1), dtype=np.float64)


def _differs(curve: Array, expected: Array) -> bool:
    return bool(np.max(curve - expected) > _LEAST_DIFFERENCE)
