"""A ranked cause in words: what it would look like here, with figures, and what settles it. Pure."""

from __future__ import annotations

import numpy as np

from clusterlab.core.sizes import human_size
from clusterlab.verdict.why.checks import check
from clusterlab.verdict.why.rank import Ranked
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.taxonomy import UNKNOWN
from clusterlab.verdict.why.types import Hypothesis

_TELLING = 1.03
"""A site's own factor from which it is said."""


def hypothesis(scene: Scene, found: Ranked) -> Hypothesis:
    """``found`` as a sentence of evidence and a check."""
    at = len(scene.points) - 1
    point = scene.points[at]
    said = [one.words for one in scene.said if one.code == found.code]
    # With the site's own latency and rate: what "met within" is said of.
    would_be = float(np.exp(found.fit.log_curve[at]))
    own = float(np.exp(found.fit.log_curve[at] - found.best.log_curve[at]))
    variant = found.best.variant
    if max(own, 1 / own) > _TELLING:
        variant += f" (and this site's own latency and rate, ×{own:.2f})"
    GBps = point.busbw_GBps * point.time_us / would_be
    measured = f"{_us(point.time_us)} ({point.busbw_GBps:.3g} GB/s)"
    expected = _us(float(np.exp(scene.expected[at])))
    whole = "the whole curve"
    if found.fit.outliers:
        whole += f" but for {found.fit.outliers} of {len(scene.points)} rows"
    fits = f"{whole} is met within a factor of {found.fit.fit:.2f}"
    where = f"at {human_size(point.size_bytes)}"
    if found.code == UNKNOWN:
        evidence = f"any smooth slowdown: measured {measured} {where}, expected {expected}; {fits}"
    else:
        evidence = (
            f"{variant}: {_us(would_be)} ({GBps:.3g} GB/s) {where}, measured {measured}, "
            f"expected {expected}; {fits}"
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


def _us(time_us: float) -> str:
    return f"{time_us:.4g} µs" if time_us < 1e4 else f"{time_us / 1e3:.4g} ms"
