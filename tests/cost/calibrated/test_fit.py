"""The fit on times made up from known constants: what went in comes out, and the class's own stay."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.calibrated.alpha_beta import alpha_beta_us, fit_alpha_beta
from clusterlab.cost.calibrated.build import of_one_class
from clusterlab.cost.calibrated.fit import fit, log_times
from clusterlab.cost.calibrated.parameters import MOST_FACTOR, NAMES, SIGMAS, moved
from clusterlab.cost.predict import predict
from tests.cost.calibrated.examples import (
    COLLECTIVES,
    SIZES,
    built,
    elsewhere,
    made_points,
    noisy,
    request,
)


@pytest.mark.parametrize(
    ("fabric", "ranks"),
    [("hgx-h100", (2, 8)), ("l40s-8", (2, 4)), ("mi300x", (8,)), ("dgx-h100-2node", (8, 16))],
)
def test_a_calibration_on_the_classs_own_predictions_changes_nothing(
    fabric: str, ranks: tuple[int, ...]
) -> None:
    points = made_points(fabric, ranks, taking=lambda r: predict(r).time_us)
    calibration = built(points)
    for ours in points:
        asked = (fabric, ours.ranks, ours.collective, ours.size_bytes)
        without, with_it = (
            predict(request(*asked, c, ours.version)).time_us for c in (None, calibration)
        )
        assert with_it == pytest.approx(without, rel=0.01), asked
    for constant in calibration.constants:
        assert constant.value == pytest.approx(constant.class_value, rel=0.02), constant


@pytest.mark.parametrize(
    "change",
    [
        {"base_us": 0.7},
        {"base_us": -0.5, "rate_simple": -0.2, "p2p_rate": -0.2},
        {"hop_ll_us": 0.5, "hop_simple_us": 0.5, "ramp_simple_bytes": 1.0},
    ],
)
def test_another_machines_constants_come_out_on_ranks_that_were_not_measured(
    change: dict[str, float],
) -> None:
    seen = elsewhere(made_points("hgx-h100", (2, 8), taking=lambda _: 1.0), **change)
    unseen = elsewhere(made_points("hgx-h100", (4,), taking=lambda _: 1.0), **change)
    found = log_times(fit(seen), unseen)
    errors = [abs(math.exp(x) / p.time_us - 1) for x, p in zip(found, unseen, strict=True)]
    assert np.mean(errors) < 0.03 and max(errors) < 0.15


def test_outliers_move_little() -> None:
    true = elsewhere(made_points("hgx-h100", (2, 8), taking=lambda _: 1.0), base_us=0.3)
    clean, dirty = (
        log_times(fit(noisy(true, noise=0.03, outliers=share)), true) for share in (0.0, 0.1)
    )
    assert np.mean(np.abs(clean - dirty)) < 0.03


def test_what_no_row_depends_on_stays_the_classs() -> None:
    names = fit(made_points("hgx-h100", (2, 8), taking=lambda r: 30.0)).constants
    assert "base_us" in names and "nvls_rate" in names
    assert not {n for n in names if n.startswith(("network", "kappa", "fill", "host_memory"))}


def test_no_row_moves_a_constant_beyond_its_limits() -> None:
    fitted = fit(made_points("hgx-h100", (2, 8), taking=lambda r: 1e7))
    assert max(abs(x) for x in fitted.constants.values()) <= math.log(MOST_FACTOR) + 1e-9
    assert any(abs(x) > 1 for x in fitted.constants.values())


def test_every_constant_has_a_prior_and_overlaps_keep_their_range() -> None:
    assert set(SIGMAS) == set(NAMES)
    assert moved("overlap_ll", 1.2, 5.0) == 4.0 and moved(
        "overlap_ll", 1.2, -50.0
    ) == pytest.approx(1)


@pytest.mark.parametrize(
    ("sizes", "ranks"), [(SIZES[:3], (2, 4, 8)), (SIZES[:7], (8,))], ids=["sizes", "rows"]
)
def test_too_few_rows_are_refused(sizes: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    points = made_points(
        "hgx-h100", ranks, sizes=sizes, collectives=["all_reduce"], taking=lambda _: 20.0
    )
    with pytest.raises(UsageError, match=r"too few to calibrate from; expected 8 or more of 4"):
        built(points)


def test_rows_of_two_machines_are_refused() -> None:
    points = [
        p
        for fabric in ("hgx-h100", "hgx-h200")
        for p in made_points(fabric, (8,), taking=lambda _: 20.0)
    ]
    with pytest.raises(UsageError, match=r"two machines: 8 x H100 .*; and 8 x H200"):
        built(points)


def test_the_commonest_class_of_gpu_is_kept() -> None:
    h100 = made_points("hgx-h100", (2,), sizes=SIZES[:4], taking=lambda _: 20.0)
    a100 = made_points("hgx-a100", (2,), sizes=SIZES[:2], taking=lambda _: 20.0)
    assert of_one_class([*a100, *h100]) == (h100, len(a100))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_alpha_beta_is_found_and_meets_ranks_between(collective: str) -> None:
    def taking(ranks: int, size: int) -> float:
        steps = (ranks - 1) * (2 if collective == "all_reduce" else 1)
        busy = size * (ranks - 1) / ranks * (2 if collective == "all_reduce" else 1)
        return 7.0 + 0.5 * steps + busy / 250e3

    def made(ranks: tuple[int, ...]) -> list[object]:
        return made_points(  # type: ignore[return-value]
            "hgx-h100", ranks, collectives=[collective],
            taking=lambda r: taking(len(r.groups[0]), r.size_bytes),
        )  # fmt: skip

    models = fit_alpha_beta(made((2, 8)))  # type: ignore[arg-type]
    for p in made((4,)):
        assert alpha_beta_us(models, p) == pytest.approx(p.time_us, rel=0.01)  # type: ignore[arg-type, attr-defined]
