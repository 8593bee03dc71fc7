"""What leaving out says: intervals hold about what they are meant to, and of points nobody had fitted."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean

import pytest

from clusterlab.cost.calibrated.crossval import (
    LEAST_SPREAD,
    NOMINAL,
    Left,
    cross_validate,
    scores,
    spreads,
)
from clusterlab.cost.calibrated.fit import fit
from tests.cost.calibrated.examples import SIZES, calibration, elsewhere, made_points, noisy

POINT = made_points(
    "hgx-h100", (2,), sizes=[1024], collectives=["all_reduce"], taking=lambda _: 9.0
)[0]


def left(ratios: list[float], folds: int) -> list[Left]:
    return [Left(POINT, "sizes", i % folds, math.log(r), None) for i, r in enumerate(ratios)]


def test_every_point_is_left_out_once_by_size_and_once_by_ranks() -> None:
    points = noisy(made_points("hgx-h100", (2, 8), taking=lambda _: 20.0), noise=0.1)
    found = cross_validate(points, fit(points))
    for kind in ("sizes", "ranks"):
        mine = [one for one in found if one.left_out == kind]
        assert sorted(map(id, (one.point for one in mine))) == sorted(map(id, points))
    by_ranks = {one.fold: one.point.ranks for one in found if one.left_out == "ranks"}
    assert sorted(by_ranks.values()) == [2, 8]
    by_size = {
        fold: {
            one.point.size_bytes for one in found if one.left_out == "sizes" and one.fold == fold
        }
        for fold in range(4)
    }
    assert set().union(*by_size.values()) == set(SIZES) and all(by_size.values())


def test_the_interval_holds_about_what_it_is_meant_to() -> None:
    """Of points that no fold has seen, drawn like the folds' own: many draws on average."""
    rng = Random(5)
    held, said = [], []
    for _ in range(200):
        made = [math.exp(rng.gauss(0.0, 0.1)) for _ in range(40)]
        spread = spreads(left(made, 4))[0]
        fresh = [math.exp(rng.gauss(0.0, 0.1)) for _ in range(50)]
        held.append(fmean(spread.low <= r <= spread.high for r in fresh))
        said.append(spread.coverage)
    assert fmean(held) == pytest.approx(NOMINAL, abs=0.03)
    assert fmean(said) == pytest.approx(NOMINAL, abs=0.05)


def test_coverage_is_of_the_other_folds_range() -> None:
    """One fold is off as a whole: no range of the others holds it."""
    made = [Left(POINT, "sizes", 0, 0.5, None)] * 10
    made += [Left(POINT, "sizes", 1 + i % 3, 0.01 * (i % 2), None) for i in range(30)]
    assert spreads(made)[0].coverage == pytest.approx(0.75)


def test_an_interval_is_no_narrower_than_repeats_differ() -> None:
    spread = spreads(left([1.0] * 12, 4))[0]
    assert (spread.low, spread.high) == pytest.approx((1 / LEAST_SPREAD, LEAST_SPREAD))
    assert spread.coverage == 1.0


def test_scores_are_of_predicted_over_measured() -> None:
    made = [Left(POINT, "ranks", 0, math.log(2.0), math.log(0.5))] * 3
    found = scores(made, spreads(made))[0]
    assert found.mape_pct == pytest.approx(50.0) and found.alpha_beta_mape_pct == pytest.approx(
        100.0
    )
    assert POINT.library_us is not None
    assert found.library_mape_pct == pytest.approx(100 * abs(POINT.library_us / 9.0 - 1))


def test_a_calibration_beats_alpha_beta_on_what_it_did_not_see() -> None:
    for score in calibration().scores:
        assert score.alpha_beta_mape_pct is not None
        assert score.mape_pct < 0.7 * score.alpha_beta_mape_pct


def test_noise_is_what_remains_on_a_machine_of_the_formula() -> None:
    true = elsewhere(made_points("hgx-h100", (2, 8), taking=lambda _: 1.0), base_us=0.3)
    for noise in (0.02, 0.1):
        points = noisy(true, noise=noise)
        found = cross_validate(points, fit(points))
        sizes = [one.error for one in found if one.left_out == "sizes"]
        assert 0.5 * noise < fmean(sizes) < 1.6 * noise + 0.01


def test_few_points_take_the_range_of_their_band() -> None:
    """Two sizes of one collective tell no range; with the twelve of the others in their band they do."""
    several = made_points("hgx-h100", (2, 4, 8), sizes=[1024, 2048], taking=lambda _: 9.0)
    mine = [p for p in several if p.collective == "all_reduce" and p.ranks == 2]
    others = [p for p in several if p.collective != "all_reduce"]
    made = [Left(p, "sizes", i % 4, 0.0, None) for i, p in enumerate(mine)]
    made += [Left(p, "sizes", i % 4, 0.2 * (-1) ** i, None) for i, p in enumerate(others)]
    found = {s.collective: s for s in spreads(made)}
    assert found["all_reduce"].high == pytest.approx(math.exp(0.2))
    assert found["all_reduce"].points == 2 and found["all_reduce"].error_p90_pct == 0.0
    assert found["all_reduce"].coverage == 1.0
