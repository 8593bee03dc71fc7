"""The most likely constants of a system given its measurements and its class: MAP, robust, on log residuals.

    minimise  Σ weight × soft-L1((ln predicted - ln measured) / NOISE) + Σ (parameter / its sigma)²

The formula is the package's own, run on arrays; constants that no row depends on stay the class's. Repeats
of a point (versions, element types, in place) count as the square root of their number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from clusterlab.cost.calibrated.correction import KNOTS_BYTES
from clusterlab.cost.calibrated.parameters import (
    MOST_FACTOR,
    MOST_SIGMAS,
    NAMES,
    SMOOTHNESS,
    Layout,
    moved,
)
from clusterlab.cost.calibrated.points import FitPoint
from clusterlab.cost.effects.features import Features
from clusterlab.cost.effects.formula import time_us

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NOISE = 0.05
"""Relative error of one row: half of what two versions or element types of one point differ by."""

_STEP = 1e-5
_NUMBERS = tuple(
    f.name for f in fields(Features) if f.name not in ("kind", "protocol", "several_nodes", "sums")
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Log factors on the constants, and on times at KNOTS_BYTES by collective."""

    layout: Layout
    vector: tuple[float, ...]

    @property
    def constants(self) -> dict[str, float]:
        """The log factor of each constant that some row depends on."""
        return dict(zip(self.layout.constants, self.vector, strict=False))

    def knots(self, collective: str) -> tuple[float, ...]:
        """The log factors of one collective."""
        return self.vector[self.layout.knots(collective)]


def fit(points: Sequence[FitPoint], *, start: Fitted | None = None) -> Fitted:
    """What moves the class's constants to ``points``; ``start`` is a fit of more points to begin at."""
    import numpy as np
    from scipy.optimize import least_squares

    batches = _batches(points)
    collectives = tuple(sorted({p.collective for p in points}))
    touched = {name for batch in batches for name in batch.touching}
    layout = Layout(tuple(n for n in NAMES if n in touched), collectives)
    sigmas = np.array(layout.sigmas)
    logs = np.log([p.time_us for p in points])
    scale = _weights(points) / NOISE
    smooth = _smoothness(layout)

    def both(z: Floats) -> tuple[Floats, Floats]:
        """Robust residuals, and how they change with the residual itself."""
        error = (_log_times(batches, layout, z * sigmas, len(points)) - logs) * scale
        root = np.sqrt(1 + error**2)
        robust = np.sign(error) * np.sqrt(2 * (root - 1))
        slope = np.where(
            np.abs(robust) > _STEP, np.abs(error) / (root * np.maximum(np.abs(robust), _STEP)), 1.0
        )
        return robust, slope

    def residuals(z: Floats) -> Floats:
        return np.concatenate([both(z)[0], z, smooth @ z])

    def jacobian(z: Floats) -> Floats:
        change = _log_time_changes(batches, layout, z * sigmas, len(points)) * sigmas
        return np.vstack([change * (scale * both(z)[1])[:, None], np.eye(len(z)), smooth])

    most = np.minimum(MOST_SIGMAS, np.log(MOST_FACTOR) / sigmas)
    first = _first(layout, start) / sigmas
    # lsmr: the exact solver's SVD waits a fifth of a second for BLAS's threads where cores are busy.
    found = least_squares(
        residuals, np.clip(first, -0.99 * most, 0.99 * most), jac=jacobian,
        bounds=(-most, most), ftol=1e-4, max_nfev=30, tr_solver="lsmr",
    )  # fmt: skip
    return Fitted(layout, tuple(float(x) for x in found.x * sigmas))


def log_times(fitted: Fitted, points: Sequence[FitPoint]) -> Floats:
    """ln µs of each point by ``fitted``; collectives and constants it does not know stay the class's."""
    import numpy as np

    batches = _batches(points, layout=fitted.layout)
    return _log_times(batches, fitted.layout, np.array(fitted.vector), len(points))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Points of one shape of the formula, as arrays. ``hat`` spreads a collective's knots over them."""

    collective: str
    members: Floats
    terms: SimpleNamespace
    middle: dict[str, float]
    touching: tuple[str, ...]
    hat: Floats


def _batches(points: Sequence[FitPoint], *, layout: Layout | None = None) -> list[_Batch]:
    import numpy as np

    groups: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, p in enumerate(points):
        t = p.terms
        groups[t.kind, t.protocol, t.several_nodes, t.sums, p.collective, p.effects].append(i)
    made = []
    knots = np.log(KNOTS_BYTES)
    for members in groups.values():
        p = points[members[0]]
        terms = SimpleNamespace(
            kind=p.terms.kind, protocol=p.terms.protocol,
            several_nodes=p.terms.several_nodes, sums=p.terms.sums,
            **{f: np.array([float(getattr(points[i].terms, f)) for i in members]) for f in _NUMBERS},
        )  # fmt: skip
        middle = asdict(p.effects)
        names = NAMES if layout is None else layout.constants
        sizes = np.log([points[i].size_bytes for i in members])
        hat = np.stack([np.interp(sizes, knots, row) for row in np.eye(len(knots))], axis=1)
        made.append(
            _Batch(
                p.collective, np.array(members), terms, middle, _touching(terms, middle, names), hat
            )
        )
    return made


def _touching(
    terms: SimpleNamespace, middle: dict[str, float], names: Sequence[str]
) -> tuple[str, ...]:
    """The constants that the time of some of these points depends on."""
    import numpy as np

    here = _formula(terms, middle)
    changed = {n: {**middle, n: moved(n, middle[n], 0.1)} for n in names}
    return tuple(n for n, k in changed.items() if np.max(np.abs(_formula(terms, k) - here)) > _STEP)


def _formula(terms: SimpleNamespace, constants: dict[str, float]) -> Any:
    import numpy as np

    return np.log(time_us(terms, SimpleNamespace(**constants)))


def _moved(batch: _Batch, layout: Layout, x: Floats) -> dict[str, float]:
    values = zip(layout.constants, x, strict=False)
    return {**batch.middle, **{n: moved(n, batch.middle[n], float(v)) for n, v in values}}


def _log_times(batches: Sequence[_Batch], layout: Layout, x: Floats, count: int) -> Floats:
    import numpy as np

    times = np.empty(count)
    for batch in batches:
        here = _formula(batch.terms, _moved(batch, layout, x))
        if batch.collective in layout.collectives:
            here = here + batch.hat @ x[layout.knots(batch.collective)]
        times[batch.members] = here
    return times


def _log_time_changes(batches: Sequence[_Batch], layout: Layout, x: Floats, count: int) -> Floats:
    """Derivatives of ``_log_times``: by differences for constants, exact for factors."""
    import numpy as np

    changes = np.zeros((count, len(x)))
    for batch in batches:
        constants = _moved(batch, layout, x)
        here = _formula(batch.terms, constants)
        for name in batch.touching:
            at = layout.constants.index(name)
            nearby = moved(name, batch.middle[name], float(x[at]) + _STEP)
            there = _formula(batch.terms, {**constants, name: nearby})
            changes[batch.members, at] = (there - here) / _STEP
        changes[batch.members, layout.knots(batch.collective)] = batch.hat
    return changes


def _weights(points: Sequence[FitPoint]) -> Floats:
    """Of residuals: squared they are 1 over the square root of a point's repeats."""
    import numpy as np

    def key(p: FitPoint) -> tuple[object, ...]:
        return p.collective, p.ranks, p.nodes, p.size_bytes

    counts = Counter(map(key, points))
    return np.array([counts[key(p)] ** -0.25 for p in points])


def _smoothness(layout: Layout) -> Floats:
    """Differences of neighbouring factors, one row each."""
    import numpy as np

    rows = []
    size = len(layout.sigmas)
    for collective in layout.collectives:
        at = layout.knots(collective)
        for i in range(at.start, at.stop - 1):
            row = np.zeros(size)
            row[i : i + 2] = -SMOOTHNESS, SMOOTHNESS
            rows.append(row)
    return np.array(rows)


def _first(layout: Layout, start: Fitted | None) -> Floats:
    """The vector to begin at."""
    import numpy as np

    if start is None:
        return np.zeros(len(layout.sigmas))
    known = start.constants
    first = [known.get(n, 0.0) for n in layout.constants]
    for collective in layout.collectives:
        first += start.knots(collective)
    return np.array(first)
