"""Whether a curve is further from the prediction than predictions are from healthy systems. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clusterlab.core.findings import Verdict
from clusterlab.core.sizes import human_size
from clusterlab.verdict.why.bands import bands_of
from clusterlab.verdict.why.ordinary import Ordinary, kind_of, ordinary
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.shapes import Shape, shapes_of

ALARMING_FALL = 1.4
"""A larger buffer faster by so much, in the fastest rows of both sizes: one healthy curve in fifty has it."""

_LEAST_FALL_BYTES = 16 << 10
"""Below, a fall is of a few µs: a change of protocol, or a timer."""

SAID_AND_SLOWER = math.log(1.05)
"""Where the run itself says what is in the way, so little is enough."""

_FAST = 1.6
"""So much further (in logarithms) a curve is too fast: two GPUs of a class gather a quarter faster than its
constants say, and nobody minds.
"""

_GUESSED = 3.0
"""Wider limits (in logarithms) where the GPU is not known."""

_STILL_AS_FORCED = math.log(2.0)


@dataclass(frozen=True, slots=True)
class Detected:
    """The verdict and what it rests on; ``slowdown`` by band: measured over expected, and what is ordinary.

    ``shapes``: what the curve shows without any prediction.
    """

    verdict: Verdict
    reason: str
    slowdown: Mapping[str, tuple[float, float]]
    shapes: tuple[Shape, ...] = ()


def detect(scene: Scene, known: Ordinary | None = None) -> Detected:
    """Slow where a band's median is beyond what is ordinary of the class, or a larger buffer is faster."""
    known = known or ordinary()
    kind = kind_of(scene.world.comm)
    sizes = np.array(scene.sizes, float)
    bands = bands_of(sizes, scene.ratio)
    wider = _GUESSED if scene.guessed else 1.0
    limits = {b: known.limit(b, kind) * wider for b in bands}
    slowdown = {band: (math.exp(bands[band]), math.exp(limits[band])) for band in bands}
    shapes = shapes_of(scene.sizes, np.exp(scene.data.log_time).tolist())
    slow = [
        f"{_NAMES[band]}: {math.exp(bands[band]):.3g} times what is expected (ordinary: up to "
        f"{math.exp(limits[band]):.3g})"
        for band in bands
        if bands[band] > limits[band]
    ]
    slow += [falls] if (falls := _fall(scene)) else []
    if not slow:
        slow = _said(scene, bands)
    if slow:
        return Detected(Verdict.SLOW, "; ".join(slow), slowdown, shapes)
    fast = [
        band
        for band in ("floor", "plateau")
        if bands.get(band, 0.0) < -_FAST * limits.get(band, 0.0)
    ]
    if fast:
        reason = "; ".join(
            f"{_NAMES[band]}: {math.exp(bands[band]):.3g} times what is expected (ordinary: from "
            f"{math.exp(-_FAST * limits[band]):.3g})"
            for band in fast
        )
        return Detected(Verdict.FAST_UNEXPECTED, reason, slowdown, shapes)
    near = ", ".join(f"{_NAMES[b]} {math.exp(v):.3g}" for b, v in bands.items() if b != "hump")
    reason = f"measured over expected time is ordinary for {kind}: {near}"
    return Detected(Verdict.PASS, reason, slowdown, shapes)


def _fall(scene: Scene) -> str:
    """Two rows that both take longer than every row of some larger buffer: one alone is a slip."""
    sizes, times = np.array(scene.sizes), np.exp(scene.data.log_time)
    distinct = [s for s in np.unique(sizes) if s >= _LEAST_FALL_BYTES]
    for i, size in enumerate(distinct[:-1]):
        rows = np.sort(times[(sizes == size) | (sizes == distinct[max(0, i - 1)])])
        least = float(np.max(times[sizes == distinct[i + 1]]))
        if (
            len(rows) > 1
            and rows[-2] >= ALARMING_FALL * least
            and min(times[sizes == size]) >= (ALARMING_FALL * least)
        ):
            return (
                f"time falls from {min(times[sizes == size]):.4g} µs at {human_size(int(size))} to "
                f"{least:.4g} µs at {human_size(int(distinct[i + 1]))}"
            )
    return ""


_NAMES = {
    "floor": "below 64 KiB",
    "middle": "64 KiB to 64 MiB",
    "plateau": "the plateau (largest sizes)",
    "hump": "a window of sizes between them",
}


def _said(scene: Scene, bands: Mapping[str, float]) -> list[str]:
    """What the run says is in its way, where it is slower than without."""
    if not scene.said:
        return []
    words = ", ".join(one.words for one in scene.said)
    ends = [bands[name] for name in ("plateau", "floor") if name in bands]
    forced = all(one.code in ("ALGO_FORCED", "PROTO_FORCED") for one in scene.said)
    least = _STILL_AS_FORCED if forced else SAID_AND_SLOWER
    if ends and min(ends) > least:
        return [
            f"the run says {words}, and takes {math.exp(max(ends)):.3g} times what is expected without"
        ]
    return []
