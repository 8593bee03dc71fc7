"""What well measurements get of what they should, and how much they scatter. Pure.

A fault may slow most of a few measurements (one host of three slows four messages of six), never make one
faster: the pace is that of the fastest crowd, not the median.
"""

from __future__ import annotations

import numpy as np

from clusterlab.verdict.localise.types import Floats

LEAST_NOISE = 0.02
_CROWD = 0.3
"""A crowd counts from this share of the largest one's size on."""

_BINS_A_WIDTH = 4
_FEW = 12


def pace_and_noise(seen: Floats) -> tuple[float, float]:
    """(pace, noise) of logarithms of rates over expectations that are comparable with each other.

    The noise is that of the fast side: what is slow stands on the other. Of fewer than _FEW it is no less
    than twice LEAST_NOISE.
    """
    values = np.sort(seen)
    least = LEAST_NOISE * (2 if len(values) < _FEW else 1)
    if len(values) == 0:
        return 0.0, least
    near, pace = _fastest_crowd(values)
    above = values[values >= pace] - pace
    spread = 1.4826 * float(np.median(above)) if len(above) > 1 else 0.0
    if len(near) >= _FEW:
        spread = max(spread, 1.4826 * float(np.median(np.abs(near - pace))))
    return pace, max(least, spread)


def _fastest_crowd(values: Floats) -> tuple[Floats, float]:
    """The values of the fastest crowd, and its middle."""
    width = 0.1
    step = width / _BINS_A_WIDTH
    first = values[0] - 3 * width
    number = ((values - first) / step).astype(np.int64)
    count = np.bincount(number, minlength=int(number[-1]) + 3 * _BINS_A_WIDTH + 2).astype(
        np.float64
    )
    reach = np.arange(-3 * _BINS_A_WIDTH, 3 * _BINS_A_WIDTH + 1) / _BINS_A_WIDTH
    smooth = np.convolve(count, np.exp(-0.5 * reach**2), mode="same")
    inner = smooth[1:-1]
    peaks = np.flatnonzero((inner >= smooth[:-2]) & (inner > smooth[2:])) + 1
    tall = peaks[smooth[peaks] >= _CROWD * smooth.max()] if len(peaks) else np.zeros(0, np.int64)
    at = int(tall[-1]) if len(tall) else int(np.argmax(smooth))
    middle = first + (at + 0.5) * step
    near = values[np.abs(values - middle) <= 2 * width]
    if len(near) == 0:
        near = values[-1:]
    return near, float(np.median(near))
