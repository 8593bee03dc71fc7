"""The likelihood of curves, and what is ordinary of a class."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterlab.verdict.why.bands import bands_of
from clusterlab.verdict.why.likelihood import (
    Points,
    Spread,
    Widths,
    covariance,
    explained,
    log_likelihoods,
    shares,
)
from clusterlab.verdict.why.ordinary import Ordinary, Seen, ordinary

SIZES = np.array([2.0**k for k in range(3, 33)])
CURVE = np.log(10 + SIZES / 100e3)
SPREAD = Spread(latency=0.3, rate=0.05, model=0.2, point=0.03)


def points(times: np.ndarray) -> Points:
    return Points(np.log(SIZES), times)


def test_the_nearer_a_curve_the_likelier() -> None:
    found = [
        explained(points(CURVE + off), CURVE, SPREAD).log_likelihood for off in (0, 0.2, 0.5, 1.5)
    ]
    assert found == sorted(found, reverse=True)


def test_a_site_s_own_latency_costs_less_than_a_plateau_that_is_off() -> None:
    steps, nbytes = shares(np.log(SIZES), CURVE)
    latency = explained(points(CURVE + 0.3 * steps), CURVE, SPREAD)
    plateau = explained(points(CURVE + 0.3 * nbytes), CURVE, SPREAD)
    assert latency.log_likelihood > plateau.log_likelihood + 5
    assert steps + nbytes == pytest.approx(np.ones(len(SIZES)))


def test_a_row_far_off_is_set_aside_at_a_price() -> None:
    times = CURVE.copy()
    times[11] += math.log(8)
    once = explained(points(times), CURVE, SPREAD)
    clean = explained(points(CURVE), CURVE, SPREAD)
    assert once.outliers == 1 and clean.outliers == 0
    assert clean.log_likelihood - 15 < once.log_likelihood < clean.log_likelihood - 3
    assert once.fit < 1.05


def test_covariances_can_be_of_something() -> None:
    for spread in (SPREAD, Spread(1.2, 0.9, 1.2, 0.08)):
        values = np.linalg.eigvalsh(covariance(points(CURVE), CURVE, spread))
        assert values.min() > -1e-9


def test_more_healthy_systems_that_agree_make_a_narrower_limit() -> None:
    def limit(seen: Seen) -> float:
        return Ordinary({"plateau": 0.2}, {"plateau": {"x": seen}}, "").limit("plateau", "x")

    widths = [limit(Seen(n, n * 0.03**2)) for n in (0, 1, 3, 10, 40)]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] == limit(Seen(0, 0)) > 3 * 0.2
    assert limit(Seen(5, 5 * 0.3**2)) > limit(Seen(5, 5 * 0.1**2))


def test_what_ships_has_a_limit_for_every_band_and_any_class() -> None:
    known = ordinary()
    for band in ("floor", "middle", "plateau", "hump"):
        for kind in ("hopper ib", "no such class"):
            assert 0.05 < known.limit(band, kind) < 2.5
    assert "systems" in known.source


def test_a_floor_s_delay_is_not_the_middle_s_too() -> None:
    ratio = np.where(SIZES < 1 << 23, math.log(2.5), 0.0)
    found = bands_of(SIZES, ratio)
    assert found["floor"] == pytest.approx(math.log(2.5))
    assert abs(found["middle"]) < 0.1 and found["plateau"] == 0.0
    inside = np.where((SIZES >= 1 << 18) & (SIZES <= 1 << 21), math.log(4), 0.0)
    assert bands_of(SIZES, inside)["hump"] == pytest.approx(math.log(4))


def test_many_curves_at_once_are_as_likely_as_each_alone() -> None:
    draw = np.random.default_rng(12)
    for rows in (5, 30):
        sizes = np.log(SIZES[:rows])
        times = CURVE[:rows] + draw.normal(0, 0.1, rows)
        times[rows // 2] += 2.0  # one row, or more with a curve that is off, is set aside
        some = Points(sizes, times)
        curves = CURVE[:rows] + draw.normal(0, 0.3, (9, 1)) + draw.normal(0, 0.05, (9, rows))
        inside = np.where(draw.random((9, rows)) < 0.2, 0.5, 0.0)
        spreads = [Spread(*draw.uniform(0.02, 0.5, 4)) for _ in range(9)]
        widths = Widths(
            *(
                np.array([getattr(one, name) for one in spreads])
                for name in ("latency", "rate", "model", "point")
            )
        )
        alone = [
            explained(some, curve, spread, window)
            for curve, spread, window in zip(curves, spreads, inside, strict=True)
        ]
        assert any(one.outliers for one in alone)
        assert log_likelihoods(some, curves, widths, inside) == pytest.approx(
            [one.log_likelihood for one in alone], abs=1e-8
        )
