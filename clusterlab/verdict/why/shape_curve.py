"""One table as a curve: sizes in order, and what was measured at each. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeGuard

from clusterlab.core.sizes import MAX_SIZE_BYTES

_SHORTEST_us, _LONGEST_us = 1e-6, 1e15
"""A picosecond and thirty years: nothing outside is a measurement, and logs inside stay finite."""

_LEAST_SIZES = 8


@dataclass(frozen=True, slots=True)
class Curve:
    """Distinct sizes (bytes), ascending, and the times (µs, ascending) of the rows of each size.

    nccl-tests measures every size twice, out of place and in place: one slow row of the two is an
    outlier, both are a property of the curve. So shapes are looked for in ``fastest_us``.
    """

    sizes: tuple[int, ...]
    repeats_us: tuple[tuple[float, ...], ...]

    @property
    def fastest_us(self) -> tuple[float, ...]:
        """The fastest row of each size."""
        return tuple(times[0] for times in self.repeats_us)

    @property
    def rates(self) -> tuple[float, ...]:
        """Bytes per µs of the fastest row of each size: busbw up to a constant factor."""
        return tuple(s / t for s, t in zip(self.sizes, self.fastest_us, strict=True))

    @property
    def spreads(self) -> tuple[float, ...]:
        """Log of slowest over fastest row, of each size that was measured more than once."""
        return tuple(math.log(t[-1] / t[0]) for t in self.repeats_us if len(t) > 1)


def curve_of(sizes: Iterable[float | None], times_us: Iterable[float | None]) -> Curve:
    """Rows in any order, several of a size or one. What is no measurement (None, a size below one byte, a
    time that is not above 0 and finite) is left out. Raises ValueError when the lists differ in length.
    """
    rows: defaultdict[int, list[float]] = defaultdict(list)
    for size, time_us in zip(sizes, times_us, strict=True):
        if _is_size(size) and is_time(time_us):
            rows[int(size)].append(float(time_us))
    ordered = sorted(rows)
    return Curve(tuple(ordered), tuple(tuple(sorted(rows[s])) for s in ordered))


def is_time(time_us: float | None) -> TypeGuard[float]:
    """Whether this can be the time of a measurement."""
    return time_us is not None and _SHORTEST_us <= time_us <= _LONGEST_us


def _is_size(size: float | None) -> TypeGuard[float]:
    return size is not None and 1 <= size <= MAX_SIZE_BYTES


def roughness(curve: Curve) -> float | None:
    """Noise from size to size, as a share of the time (a standard deviation); None below eight sizes: in a
    short table the knee is half of it.

    How far each size lies from the straight line (in logs) between its neighbours. The median is used,
    so the knee and single outliers do not count.
    """
    logs = [math.log(t) for t in curve.fastest_us]
    x = [math.log(s) for s in curve.sizes]
    off = []
    for i in range(1, len(x) - 1):
        share = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1])
        line = logs[i - 1] * (1 - share) + logs[i + 1] * share
        off.append((logs[i] - line) / math.sqrt(1 + share**2 + (1 - share) ** 2))
    return spread_of(off) if len(x) >= _LEAST_SIZES else None


def repeat_noise(curve: Curve) -> float | None:
    """Noise from repeat to repeat, likewise; None where fewer than eight sizes were measured twice.

    What the two differ by at every size is no noise (an in-place all_gather spares a copy), so the scatter
    of their differences counts: 0.399 standard deviations for the median distance of such.
    """
    spreads = curve.spreads
    if len(spreads) < _LEAST_SIZES:
        return None
    middle = median(spreads)
    return median(abs(s - middle) for s in spreads) / 0.399 / math.sqrt(2)


def spread_of(values: Sequence[float]) -> float:
    """Standard deviation of normal values with this median distance from their median."""
    middle = median(values)
    return 1.4826 * median(abs(v - middle) for v in values)
