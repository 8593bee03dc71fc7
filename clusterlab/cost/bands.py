"""Bands of sizes, by what rules there, and the quantiles that scores and calibrations share."""

from __future__ import annotations

from collections.abc import Sequence

LARGEST_BAND = ">=64 MiB"
_BELOW = ((64 << 10, "<64 KiB"), (1 << 20, "64 KiB-1 MiB"), (64 << 20, "1-64 MiB"))
BANDS = (*(name for _, name in _BELOW), LARGEST_BAND)
"""Where latency rules, where protocols change, where bandwidth builds up, and the plateau."""


def size_band(size_bytes: int) -> str:
    """The band of a size: ``<64 KiB``, ``64 KiB-1 MiB``, ``1-64 MiB`` or ``>=64 MiB``."""
    return next((name for below, name in _BELOW if size_bytes < below), LARGEST_BAND)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of rising values, interpolated linearly between the nearest two."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
