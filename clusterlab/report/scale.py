"""Axes: where a value lands, and which ticks to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clusterlab.core.sizes import human_size
from clusterlab.report.numbers import three_digits

LOG_FROM_RANGE = 30.0
"""A value axis spanning more than this factor is logarithmic: small sizes stay readable."""

LEAST, MOST = 1e-300, 1e300
"""Outside nothing is drawn: the ends of an axis around it would be no numbers."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis. ``minor`` ticks lose their label where space is short."""

    value: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """A value range mapped to the share 0 to 1 of the drawing, and its ticks."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...]

    def share(self, value: float) -> float:
        """Where ``value`` lies: 0 at ``low``, 1 at ``high``; outside values stay at the edge."""
        value = min(max(value, self.low), self.high)
        warp: Callable[[float], float] = math.log if self.logarithmic else float
        return (warp(value) - warp(self.low)) / (warp(self.high) - warp(self.low))


def size_axis(sizes: Sequence[int], most_ticks: int = 9) -> Axis:
    """A log2 axis over sizes in bytes, ticks at powers of two. Sizes below 1 byte count as 1."""
    low, high = max(1, min(sizes)), max(1, *sizes)
    if low == high:
        low, high = max(1, low // 2), high * 2
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, math.ceil((last - first + 1) / most_ticks))
    exponents = range(first, last + 1, step)
    ticks = tuple(
        Tick(float(2**e), human_size(2**e), minor=bool(i % 2)) for i, e in enumerate(exponents)
    )
    return Axis(float(low), float(high), True, ticks)


def value_axis(values: Sequence[float]) -> Axis:
    """An axis over bandwidths: logarithmic over a wide range, else linear from 0."""
    positive = [v for v in values if LEAST < v < MOST]
    if not positive:
        return Axis(0.0, 1.0, False, (Tick(0.0, "0"), Tick(1.0, "1")))
    low, high = min(positive), max(positive)
    return _log_axis(low, high) if high / low > LOG_FROM_RANGE else _linear_axis(high)


def _log_axis(low: float, high: float) -> Axis:
    low, high = low / 1.15, high * 1.15
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    values = [m * 10.0**e for e in decades for m in steps]
    inside = [v for v in values if low <= v <= high]
    skip = max(1, math.ceil(len(inside) / 9))
    ticks = tuple(Tick(v, tick_label(v)) for v in inside[::skip])
    return Axis(low, high, True, ticks)


def _linear_axis(high: float) -> Axis:
    rough = high * 1.05 / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(m for m in (1, 2, 2.5, 5, 10) if rough <= m * power * (1 + 1e-9))
    count = math.ceil(high * 1.02 / step)
    ticks = tuple(Tick(i * step, tick_label(i * step)) for i in range(count + 1))
    return Axis(0.0, count * step, False, ticks)


def tick_label(value: float) -> str:
    """``value`` without needless zeros: 0.05, 1, 2.5, 400."""
    text = three_digits(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


_RATIO_TICKS = ((1.25, 1), (1.5, 1), (2, 1), (4, 2), (10, 1), (100, 2))
"""Outermost tick and number of ticks on either side of 1, narrowest first."""


def ratio_axis(ratios: Sequence[float]) -> Axis:
    """A logarithmic axis around 1, as wide as ``ratios`` need, at most 0.01 to 100."""
    reach = max((abs(math.log(r)) for r in ratios if 0 < r < math.inf), default=0.0)
    outer, count = next(
        (pair for pair in _RATIO_TICKS if reach <= math.log(pair[0]) * 1.02), _RATIO_TICKS[-1]
    )
    edge = outer**1.08
    marks = [outer ** (i / count) for i in range(-count, count + 1)]
    return Axis(1 / edge, edge, True, tuple(Tick(m, tick_label(m)) for m in marks))
