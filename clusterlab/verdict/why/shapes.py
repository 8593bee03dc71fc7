"""What a curve shows without any prediction: falls, dips, cliffs, two modes, a cold start, noise. Pure.

Nothing here knows the machine, so only what no healthy curve does counts: time grows with the buffer, and
busbw, once reached, stays. A detector that says nothing has looked and found nothing; how often each
speaks on healthy curves is measured in tests/verdict/why/test_shapes.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median
from typing import Literal

from clusterlab.core.sizes import human_size
from clusterlab.verdict.why.shape_curve import Curve, curve_of, repeat_noise, roughness
from clusterlab.verdict.why.shape_samples import modes_of

Kind = Literal[
    "fall", "dip", "cliff", "bimodal", "cold_start", "noise", "flat_floor"
]  # fmt: skip

FALL = 1.3
"""A row so much slower than a larger buffer's, or at so much less than the busbw on both sides, is no
noise: two healthy tables of one class differ by 1.07 over all sizes and by 1.01 at the plateau, and
healthy tables have such a fall in one of twenty (NCCL switching algorithms, one of 59 on 25G RoCE)."""

COLD = 1.5
_COLD_ROWS = 3
"""The first rows that a start can slow. What is slow for longer is no start."""

_SAME = 1.05
_FLAT = 1.25
_NOISY = 0.1
_REPEATS_DIFFER = 5.0
"""Repeats that differ by so many times the usual difference: 3.4 standard deviations."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One thing that a curve shows.

    ``sizes`` (bytes, ascending) are the rows concerned. ``strength`` is by which factor the rows are off:
    1 is nothing; for ``noise`` 1 plus its standard deviation, for ``flat_floor`` the largest over the
    smallest size that takes as long. ``time_us`` is the level of a floor, else None.
    """

    kind: Kind
    sizes: tuple[int, ...]
    strength: float
    evidence: str
    time_us: float | None = None

    @property
    def alarming(self) -> bool:
        """Whether healthy curves do not have it. Every curve has a floor."""
        return self.kind != "flat_floor"


def shapes_of(
    sizes: Iterable[float | None],
    times_us: Iterable[float | None],
    samples_us: Mapping[int, Sequence[float | None]] | None = None,
) -> tuple[Shape, ...]:
    """Everything that the rows of one table show, in any order and with repeats.

    ``samples_us`` are the times of single iterations by size, where they were kept. Rows without a usable
    time are left out; a table too short for a detector shows nothing to it.
    """
    curve = curve_of(sizes, times_us)
    cold = cold_start(curve)
    warm = _without(curve, cold.sizes if cold else ())
    found = [
        cold,
        fall(warm),
        dip(warm),
        cliff(warm),
        bimodal_repeats(warm),
        *(bimodal_samples(samples_us) if samples_us else ()),
        noise(warm),
        flat_floor(warm),
    ]
    return tuple(shape for shape in found if shape is not None)


def cold_start(curve: Curve) -> Shape | None:
    """The first row or rows slower than larger ones, or the first below a plateau that begins at once.

    The slowest repeat counts: of two rows of a size the first one run takes the start.
    """
    if len(curve.sizes) < 3:
        return None
    over = [
        times[-1] / later
        for times, later in zip(curve.repeats_us[:-1], _least_after(curve), strict=False)
    ]
    rows = 0
    while rows < min(_COLD_ROWS, len(over)) and over[rows] >= COLD:
        rows += 1
    # More than half of a table cannot be its beginning, and a fall further on is another thing.
    if rows and rows <= len(curve.sizes) // 2 and not (rows < len(over) and over[rows] >= FALL):
        strength = max(over[:rows])
        return Shape(
            "cold_start",
            curve.sizes[:rows],
            strength,
            f"{_rows(rows)} {'is' if rows == 1 else 'are'} up to {strength:.3g} times as slow as a "
            f"larger buffer ({curve.repeats_us[0][-1]:.4g} µs at {human_size(curve.sizes[0])}, "
            f"{curve.repeats_us[rows][0]:.4g} µs at {human_size(curve.sizes[rows])})",
        )
    return _cold_plateau(curve)


def _cold_plateau(curve: Curve) -> Shape | None:
    rates = curve.rates
    if len(rates) < 4 or max(rates[1:4]) > _SAME * min(rates[1:4]) or rates[1] < FALL * rates[0]:
        return None
    strength = rates[1] / rates[0]
    return Shape(
        "cold_start",
        curve.sizes[:1],
        strength,
        f"the first row has 1/{strength:.3g} of the busbw of the next three, which are alike",
    )


def fall(curve: Curve) -> Shape | None:
    """Time falls by ``FALL`` or more at the next larger size."""
    times = curve.fastest_us
    falls = {i: times[i] / times[i + 1] for i in range(len(times) - 1)}
    deep = {i: by for i, by in falls.items() if by >= FALL}
    if not deep:
        return None
    worst = max(deep, key=lambda i: deep[i])
    return Shape(
        "fall",
        tuple(curve.sizes[i] for i in deep),
        deep[worst],
        f"time falls from {times[worst]:.4g} µs at {human_size(curve.sizes[worst])} to "
        f"{times[worst + 1]:.4g} µs at {human_size(curve.sizes[worst + 1])}"
        + (f", and at {len(deep) - 1} other sizes" if len(deep) > 1 else ""),
    )


def dip(curve: Curve) -> Shape | None:
    """A window of sizes slower than larger buffers, or at less busbw than smaller and larger ones have."""
    rates, times = curve.rates, curve.fastest_us
    if len(rates) < 3:
        return None
    before = list(accumulate(rates, max))
    after = list(accumulate(reversed(rates), max))[::-1]
    least = list(accumulate(reversed(times), min))[::-1]
    depth = [
        max(min(before[i - 1], after[i + 1]) / rates[i], times[i] / least[i + 1])
        for i in range(1, len(rates) - 1)
    ]
    worst = max(range(len(depth)), key=depth.__getitem__)
    if depth[worst] < FALL:
        return None
    first = last = worst
    while first > 0 and depth[first - 1] >= FALL:
        first -= 1
    while last < len(depth) - 1 and depth[last + 1] >= FALL:
        last += 1
    window = curve.sizes[first + 1 : last + 2]
    return Shape(
        "dip",
        window,
        depth[worst],
        f"{_span(window)}: slower than the sizes on both sides, by {depth[worst]:.3g} times at "
        f"{human_size(curve.sizes[worst + 1])}",
    )


def cliff(curve: Curve) -> Shape | None:
    """busbw falls from one size on, by ``FALL`` or more, and does not come back in two rows or more."""
    rates = curve.rates
    if len(rates) < 4:
        return None
    before = list(accumulate(rates, max))
    after = list(accumulate(reversed(rates), max))[::-1]
    gone = {i: before[i - 1] / after[i] for i in range(1, len(rates) - 1)}
    edge = max(gone, key=lambda i: gone[i])
    if gone[edge] < FALL:
        return None
    top = max(range(edge), key=rates.__getitem__)
    return Shape(
        "cliff",
        curve.sizes[edge:],
        gone[edge],
        f"from {human_size(curve.sizes[edge])} on at most 1/{gone[edge]:.3g} of the busbw that "
        f"{human_size(curve.sizes[top])} has",
    )


def bimodal_samples(samples_us: Mapping[int, Sequence[float | None]]) -> tuple[Shape, ...]:
    """Iterations of one size that take one of two times: a shape for all such sizes, or none."""
    found = {size: modes for size in sorted(samples_us) if (modes := modes_of(samples_us[size]))}
    if not found:
        return ()
    worst = max(found, key=lambda size: found[size].ratio)
    modes = found[worst]
    return (
        Shape(
            "bimodal",
            tuple(found),
            modes.ratio,
            f"iterations take one of two times at {len(found)} of {len(samples_us)} sizes: at "
            f"{human_size(worst)} {modes.fast_us:.4g} µs, and {modes.slow_us:.4g} µs in "
            f"{modes.slow_share:.0%}",
        ),
    )


def bimodal_repeats(curve: Curve) -> Shape | None:
    """Repeated rows that agree at most sizes and differ by ``FALL`` or more at several."""
    several = [i for i, times in enumerate(curve.repeats_us) if len(times) > 1]
    usual = median(curve.spreads) if several else 0.0
    least = max(math.log(FALL), _REPEATS_DIFFER * usual)
    apart = {
        i: math.log(curve.repeats_us[i][-1] / curve.repeats_us[i][0])
        for i in several
        if curve.repeats_us[i][-1] >= math.exp(least) * curve.repeats_us[i][0]
    }
    if len(apart) < max(3, 0.15 * len(several)):
        return None
    worst = max(apart, key=lambda i: apart[i])
    return Shape(
        "bimodal",
        tuple(curve.sizes[i] for i in apart),
        math.exp(apart[worst]),
        f"repeats differ by {FALL:g} times or more at {len(apart)} of {len(several)} sizes (most at "
        f"{human_size(curve.sizes[worst])}: {curve.repeats_us[worst][0]:.4g} and "
        f"{curve.repeats_us[worst][-1]:.4g} µs), by {math.exp(usual) - 1:.1%} at the median size",
    )


def noise(curve: Curve) -> Shape | None:
    """Times that scatter from size to size, or from repeat to repeat, by more than a tenth."""
    rough = roughness(curve) or 0.0
    spread = repeat_noise(curve) or 0.0
    worst = max(rough, spread)
    if worst < _NOISY:
        return None
    return Shape(
        "noise",
        curve.sizes,
        1 + worst,
        f"times scatter by {rough:.0%} from size to size"
        + (f" and by {spread:.0%} between repeats" if curve.spreads else ""),
    )


def flat_floor(curve: Curve) -> Shape | None:
    """The smallest sizes that all take as long, at least three of them over a factor of eight in size."""
    times = curve.fastest_us
    if len(times) < 3:
        return None
    level = median(times[:3])
    rows = 0
    while rows < len(times) and level / _FLAT <= times[rows] <= level * _FLAT:
        rows += 1
    if rows < 3 or curve.sizes[rows - 1] < 8 * curve.sizes[0]:
        return None
    level = median(times[:rows])
    last = curve.sizes[rows - 1]
    return Shape(
        "flat_floor",
        curve.sizes[:rows],
        last / curve.sizes[0],
        f"{level:.4g} µs from {human_size(curve.sizes[0])} to {human_size(last)}",
        time_us=level,
    )


def _least_after(curve: Curve) -> list[float]:
    """For each size the fastest row of the larger ones."""
    return list(accumulate(reversed(curve.fastest_us[1:]), min))[::-1]


def _without(curve: Curve, sizes: Sequence[int]) -> Curve:
    kept = [i for i, size in enumerate(curve.sizes) if size not in sizes]
    return Curve(tuple(curve.sizes[i] for i in kept), tuple(curve.repeats_us[i] for i in kept))


def _rows(count: int) -> str:
    return "the first row" if count == 1 else f"the first {count} rows"


def _span(sizes: Sequence[int]) -> str:
    first, last = human_size(sizes[0]), human_size(sizes[-1])
    return first if len(sizes) == 1 else f"{first} to {last}"
