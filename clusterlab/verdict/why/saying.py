"""A ranked cause in words: what it would look like here, with figures, and the command that settles it. Pure."""

from __future__ import annotations

import numpy as np

from clusterlab.verdict.why.checks import check
from clusterlab.verdict.why.rank import Ranked
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.types import Hypothesis


def hypothesis(scene: Scene, found: Ranked) -> Hypothesis:
    """``found`` as a sentence of evidence and a check."""
    at = len(scene.points) - 1
    point = scene.points[at]
    said = [one.words for one in scene.said if one.code == found.code]
    would_be = float(np.exp(found.best.log_curve[at]))
    GBps = point.busbw_GBps * point.time_us / would_be
    evidence = (
        f"{found.best.variant}: {would_be:.4g} µs ({GBps:.3g} GB/s) at {point.size_bytes} B, measured "
        f"{point.time_us:.4g} µs ({point.busbw_GBps:.3g} GB/s), expected {np.exp(scene.expected[at]):.4g} µs; "
        f"the whole curve is met within a factor of {found.fit.fit:.2f}"
    )
    if said:
        evidence = f"the run itself says {', '.join(said)}; {evidence}"
    return Hypothesis(
        found.code,
        found.probability,
        evidence,
        check(found.code, scene),
        found.best.variant,
        found.fit.fit,
    )
