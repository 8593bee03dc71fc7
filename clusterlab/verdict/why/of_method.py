"""Causes in the way of measuring and in the hosts: cold starts, overheads, cores, a late rank. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from clusterlab.verdict.why.candidate import Candidate
from clusterlab.verdict.why.scene import Scene

_SHARP = 10.0
"""A call that is being issued waits for the one before: of the two the longer counts, and hardly both."""

_FLOORS = tuple(1.3 * 1.2**k for k in range(17))
_SLOWER = tuple(1.12 * 1.12**k for k in range(10))
_LATE_US = tuple(30.0 * 1.45**k for k in range(14))
"""Severities lie so close that a site's own factors reach from one to the next."""


def of_method(scene: Scene) -> Iterator[Candidate]:
    """Candidates that any system can have."""
    yield from _cold_start(scene)
    yield from _overhead(scene)
    yield from _affinity(scene)
    yield from _late_rank(scene)
    yield from _shared_gpu(scene)


def _cold_start(scene: Scene) -> Iterator[Candidate]:
    """The first row or rows of the sweep: out of place first, and the first call of all most."""
    sizes = np.array(scene.sizes)
    distinct = np.unique(sizes)
    second = np.array([bool(point.in_place) for point in scene.points])
    both = (False, True) if second.any() and not second.all() else (True,)
    for rows, fading in ((1, 1.0), (2, 1.0), (2, 0.4), (3, 1.0), (3, 0.4)):
        if 2 * rows > len(distinct):
            return
        for with_second in both:
            first = np.zeros(len(sizes))
            for i, size in enumerate(distinct[:rows]):
                first[(sizes == size) & (with_second | ~second)] = fading**i
            cold = np.where(first > 0, 0.3, 0.0)
            for times in (0.7, 2.0, 6.0, 20.0, 60.0):
                curve = scene.expected + np.log1p(times * first)
                what = f"first {rows} size{'s' * (rows > 1)} up to {1 + times:g} times slower"
                yield Candidate("COLD_START_OR_WARMUP", what, curve, inside=cold)


def _overhead(scene: Scene) -> Iterator[Candidate]:
    """A floor under every call, hidden behind what takes longer."""
    floor = float(np.exp(scene.expected.min()))
    for times in _FLOORS:
        least = math.log(floor * times)
        curve = np.logaddexp(_SHARP * scene.expected, _SHARP * least) / _SHARP
        what = f"no call below {floor * times:.0f} µs"
        yield Candidate("HOST_OVERHEAD_SMALL", what, curve, latency=-0.05)


def _affinity(scene: Scene) -> Iterator[Candidate]:
    """Slower steps, noise, and a little less at the plateau."""
    nbytes = scene.bytes_share(scene.expected)
    for slower in (1.5, 2.1, 3.0):
        for left in (0.97, 0.88):
            curve = scene.expected + math.log(slower) * (1 - nbytes)
            curve = curve - math.log(left) * nbytes
            what = f"steps {slower:g} times slower, noisy, {left:.0%} of the plateau"
            # The noise is of what the host does: at the plateau there is no more than ever.
            yield Candidate("CPU_AFFINITY", what, curve, model=0.1, inside=0.6 * (1 - nbytes))


def _late_rank(scene: Scene) -> Iterator[Candidate]:
    """One rank slower in all it does, or late by the same time in every call."""
    for factor in _SLOWER:
        curve = scene.expected + math.log(factor)
        yield Candidate(
            "SLOW_RANK", f"one rank {factor:.3g} times slower", curve, latency=-0.05, rate=0.03
        )
    floor = float(np.exp(scene.expected.min()))
    for late in _LATE_US:
        if late < floor:
            continue
        for slower, unsteady, weight in (
            (1.0, 0.15, 1.0),
            (1.0, 0.4, 1.0),
            (1.4, 0.4, 0.2),
            (2.0, 0.4, 0.2),
        ):
            times = np.exp(scene.expected) * slower + late
            what = f"one rank {late:.3g} µs late" + (
                "" if slower == 1 else f" and {slower:g} times slower"
            )
            # How late differs from call to call, as far as that is what a call takes.
            waits = unsteady * late / times
            yield Candidate("SLOW_RANK", what, np.log(times), weight, model=0.1, inside=waits)


def _shared_gpu(scene: Scene) -> Iterator[Candidate]:
    """A rank whose GPU computes for others too, in slices of time: what outlasts one shares it. Of a curve
    alone that could be many things; only where the run says that something held it back.
    """
    if not any(said.code == "SLOW_RANK" for said in scene.said):
        return
    nbytes = scene.bytes_share(scene.expected)
    for short in (1.0, 1.5):
        for factor in (1.5, 2.0, 3.0):
            curve = scene.expected + math.log(short) + math.log(factor / short) * nbytes
            what = f"one rank's GPU busy with something else, {factor:g} times slower where calls are long"
            yield Candidate("SLOW_RANK", what, curve, rate=0.15, latency=0.3, point=0.1)
