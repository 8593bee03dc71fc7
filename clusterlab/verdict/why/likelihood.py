"""How well a curve explains measured times: a likelihood in log time, with what systems differ by. Pure.

Measured over predicted, in logarithms, is taken as normal around 0. Points of a table are off together:

* the site adds to the latency, and has its own share of the links' rate: two factors with a prior each, felt
  by a point as far as latency or bytes make its time;
* the model is off by what changes slowly with the size (protocols, ramps): correlated over ``REACH`` of size;
* each point has noise of its own, and a few are far off: those few cost a price instead of their distance.

The widths are those of healthy systems (``spread.yaml``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_Numbers = NDArray[np.floating[Any]]

REACH = math.log(8.0)
"""Sizes a factor of eight apart are off much alike."""

KINK_REACH = math.log(2.5)
KINK = 0.5
"""A change of protocol comes a size or two early or late: so much of the model's spread is of that reach."""

INSIDE = 0.3
OUTLIER_SHARE = 0.01
OUTLIER_SPREAD = 1.0
_MOST_OUTLIERS = 0.12
_FAR = 3.5


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of log time: of a site's latency and rate, of the model between, of a point."""

    latency: float
    rate: float
    model: float
    point: float


@dataclass(frozen=True, slots=True)
class Explained:
    """``log_likelihood`` of the points, ``fit`` the typical factor by which they are missed once the site's
    own factors are found, ``outliers`` how many were set aside. ``log_curve``: the curve with these factors.
    """

    log_likelihood: float
    fit: float
    outliers: int
    log_curve: Array = field(compare=False)


@dataclass(frozen=True)
class Points:
    """A table's times for the likelihood: logarithms of size (B) and time (µs)."""

    log_size: Array
    log_time: Array

    @cached_property
    def alike(self) -> Array:
        """How much two points are off alike by what changes slowly with the size, kinks included."""
        gap = self.log_size[:, None] - self.log_size[None, :]
        near = np.exp(-0.5 * (gap / KINK_REACH) ** 2)
        return np.asarray(np.exp(-0.5 * (gap / REACH) ** 2) + KINK**2 * near, dtype=np.float64)

    def __len__(self) -> int:
        return len(self.log_size)


def explained(
    points: Points, log_curve: Array, spread: Spread, inside: Array | None = None
) -> Explained:
    """The likelihood of ``points`` if what runs takes ``log_curve``; where ``inside`` is more than 0 each
    point is known to that multiple of ``INSIDE`` only.
    """
    residual = points.log_time - log_curve
    between = covariance(points, log_curve, spread)
    noise = np.full(len(points), spread.point**2)
    if inside is not None:
        noise = noise + (INSIDE * inside) ** 2
    price = 0.0
    outliers = 0
    while True:
        total = between + np.diag(noise)
        inverse = np.linalg.inv(total)
        solved = inverse @ residual
        if outliers >= max(1, int(_MOST_OUTLIERS * len(points))):
            break
        far, at = _farthest(inverse, solved, noise)
        if far < _FAR:
            break
        noise[at] = OUTLIER_SPREAD**2
        price += math.log(OUTLIER_SHARE)
        outliers += 1
    value = -0.5 * float(residual @ solved) - 0.5 * float(np.linalg.slogdet(total)[1])
    value -= 0.5 * len(points) * math.log(2 * math.pi)
    kept = noise < OUTLIER_SPREAD**2
    site = covariance(points, log_curve, replace(spread, model=0.0))
    own = np.asarray(site @ solved, dtype=np.float64)
    left = (residual - own)[kept]
    fit = float(np.exp(np.sqrt(np.mean(left**2))))
    return Explained(value + price, fit, outliers, log_curve + own)


@dataclass(frozen=True, slots=True)
class Widths:
    """``Spread`` of each of several curves: an array each."""

    latency: Array
    rate: Array
    model: Array
    point: Array


def log_likelihoods(points: Points, log_curves: Array, widths: Widths, inside: Array) -> Array:
    """What ``explained`` finds of each of several curves (rows of ``log_curves`` and of ``inside``), at once:
    a table has hundreds of them.
    """
    count, many = log_curves.shape
    steps, nbytes = shares(points.log_size, log_curves)
    unsure = widths.model[:, None] * _unsure(nbytes)
    between = points.alike * _squares(unsure)
    between += _squares(widths.latency[:, None] * steps) + _squares(widths.rate[:, None] * nbytes)
    noise = widths.point[:, None] ** 2 + (INSIDE * inside) ** 2
    residual = points.log_time - log_curves
    value, outliers = np.zeros(count), np.zeros(count, dtype=int)
    at_all = np.arange(many)
    left = np.arange(count)
    while len(left):
        total = between[left]
        total[:, at_all, at_all] += noise[left]
        inverse = np.linalg.inv(total)
        solved = np.einsum("kij,kj->ki", inverse, residual[left])
        value[left] = -0.5 * np.einsum("ki,ki->k", residual[left], solved)
        value[left] -= 0.5 * np.linalg.slogdet(total)[1]
        alone = np.abs(solved) / np.sqrt(inverse[:, at_all, at_all])
        alone[noise[left] >= OUTLIER_SPREAD**2] = 0.0
        at = np.argmax(alone, axis=1)
        far = np.max(alone, axis=1) >= _FAR
        more = far & (outliers[left] < max(1, int(_MOST_OUTLIERS * many)))
        left, at = left[more], at[more]
        noise[left, at] = OUTLIER_SPREAD**2
        outliers[left] += 1
    value += outliers * math.log(OUTLIER_SHARE) - 0.5 * many * math.log(2 * math.pi)
    return np.asarray(value, dtype=np.float64)


def _squares(rows: Array) -> Array:
    """The outer product of each row with itself."""
    return np.asarray(rows[:, :, None] * rows[:, None, :], dtype=np.float64)


def covariance(points: Points, log_curve: Array, spread: Spread) -> Array:
    """Of the points of one table, without each one's own noise."""
    steps, nbytes = shares(points.log_size, log_curve)
    unsure = spread.model * _unsure(nbytes)
    return (
        spread.latency**2 * np.outer(steps, steps)
        + spread.rate**2 * np.outer(nbytes, nbytes)
        + points.alike * np.outer(unsure, unsure)
    )


def shares(log_size: Array, log_curve: Array) -> tuple[Array, Array]:
    """The shares of latency and of bytes in the time of each point of a curve, or of each row of several."""
    least = np.min(log_curve, axis=-1, keepdims=True)
    slope_one = np.max(
        log_size - log_curve, axis=-1, keepdims=True
    )  # bytes over µs at the best rate
    nbytes = np.clip(np.exp(log_size - slope_one - log_curve), 0.0, 1.0)
    steps = np.clip(np.exp(least - log_curve), 0.0, 1.0)
    total = np.maximum(steps + nbytes, 1e-9)
    return steps / total, nbytes / total


def _unsure(nbytes: Array) -> Array:
    """How sure the model is of a point: least in the middle and below, most where bytes alone count."""
    return 1.0 - 0.8 * nbytes**2


def _farthest(inverse: _Numbers, solved: _Numbers, noise: Array) -> tuple[float, int]:
    """The point that the others foretell worst, in standard deviations."""
    alone = np.abs(solved) / np.sqrt(np.diag(inverse))
    alone = np.where(noise >= OUTLIER_SPREAD**2, 0.0, alone)
    at = int(np.argmax(alone))
    return float(alone[at]), at
