"""Whether a curve is further from the prediction than predictions are from healthy systems. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from clusterlab.core.findings import Verdict
from clusterlab.verdict.why.scene import Scene

_SMALL = 64 << 10
_LARGE = 64 << 20


@dataclass(frozen=True, slots=True)
class Detected:
    """The verdict and what it rests on; ``slowdown`` by band: measured over expected, and what is ordinary."""

    verdict: Verdict
    reason: str
    slowdown: Mapping[str, tuple[float, float]]


def detect(scene: Scene) -> Detected:
    """Slow where a band's median is beyond what is ordinary."""
    sizes = np.array(scene.sizes)
    bands = {
        "floor": (sizes < _SMALL, 3.2),
        "middle": ((sizes >= _SMALL) & (sizes < _LARGE), 3.2),
        "plateau": (sizes >= np.unique(sizes)[-2:][0], 1.6),
    }
    slowdown = {
        name: (float(np.exp(np.median(scene.ratio[mask]))), most)
        for name, (mask, most) in bands.items()
        if mask.any()
    }
    slow = [f"{n} {r:.2f}" for n, (r, most) in slowdown.items() if r > most]
    if slow:
        return Detected(Verdict.SLOW, "slower than expected: " + ", ".join(slow), slowdown)
    return Detected(Verdict.PASS, "as expected", slowdown)
