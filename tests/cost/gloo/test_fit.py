"""The fit on times made up from known constants: what went in comes out."""

import math
import random
import statistics

import pytest

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.errors import NoVerdictError
from clusterlab.cost.calibration import Calibration
from clusterlab.cost.gloo.fit import LEAST_SPREAD, MeasuredTime, fit_gloo, noise_pct
from clusterlab.cost.gloo.host import host_time
from clusterlab.cost.gloo.schedule import gloo_schedule
from tests.cost.examples import VALUES, calibration

KiB = 1 << 10
SIZES = [3 * KiB // 2, 24 * KiB, 192 * KiB, 768 * KiB, 3072 * KiB, 12288 * KiB]
SLOW = [("float16", "sum"), ("bfloat16", "sum"), ("bfloat16", "max")]


def true_us(name: str, n: int, size: int, dtype: str, op: str | None) -> float:
    return host_time(gloo_schedule(name, n, size), calibration(), dtype, op).time_us


def made_up(n: int, *, noise: float, repeats: int, outliers: float = 0.0) -> list[MeasuredTime]:
    rng = random.Random(11)
    points = [(c, s, "float32", "sum") for c in COLLECTIVES for s in SIZES]
    points += [("all_reduce", s, d, o) for d, o in SLOW for s in SIZES[-2:]]
    times = []
    for name, size, dtype, op in points:
        for _ in range(repeats):
            factor = math.exp(rng.gauss(0, noise)) * (4.0 if rng.random() < outliers else 1.0)
            time_us = true_us(name, n, size, dtype, op) * factor
            times.append(MeasuredTime(name, dtype, op, n, size, time_us))
    return times


def fitted(times: list[MeasuredTime]) -> Calibration:
    constants, residuals = fit_gloo(times, cores=2, source="test")
    return calibration(constants=constants, residuals=residuals)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_exact_times_give_the_constants_back(n: int) -> None:
    found = fitted(made_up(n, noise=0.0, repeats=1))
    for name in ("transport_us_per_MiB", "overlap", *(f"message_us.{c}" for c in COLLECTIVES)):
        assert found.value(name) == pytest.approx(VALUES[name], rel=0.02)
    for residual in found.residuals:
        assert residual.error_p50_pct < 1
        assert residual.noise_pct == 0


@pytest.mark.parametrize("n", [4, 8])
def test_noisy_times_with_outliers_still_predict_unseen_sizes(n: int) -> None:
    found = fitted(made_up(n, noise=0.15, repeats=6, outliers=0.05))
    for name in COLLECTIVES:
        errors = []
        for size in (1 << k for k in range(10, 25)):
            predicted = host_time(gloo_schedule(name, n, size), found, "float32", "sum").time_us
            errors.append(abs(predicted / true_us(name, n, size, "float32", "sum") - 1))
        assert statistics.median(errors) < 0.12, name


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
def test_intervals_hold_at_least_the_share_they_state(noise: float) -> None:
    found = fitted(made_up(4, noise=noise, repeats=6))
    rng = random.Random(12)
    held = total = 0
    for residual in found.residuals:
        assert residual.coverage == 0.8
        assert residual.low <= 1 / LEAST_SPREAD
        assert residual.high >= LEAST_SPREAD
        for size in (1 << k for k in range(10, 25)):
            for _ in range(20):
                truth = true_us(residual.collective, 4, size, "float32", "sum")
                measured = truth * math.exp(rng.gauss(0, noise))
                schedule = gloo_schedule(residual.collective, 4, size)
                predicted = host_time(schedule, found, "float32", "sum").time_us
                held += residual.low <= measured / predicted <= residual.high
                total += 1
    assert held / total >= 0.75
    if noise > 0.3:
        assert held / total <= 0.95  # wide because the data are, not because nothing was learnt


def test_the_fit_can_fail_to_describe_and_then_says_so() -> None:
    """Times that fall with size are none of this model's; the stated error must be large."""
    times = [
        MeasuredTime("all_reduce", "float32", "sum", 4, size, 1e9 / size)
        for size in SIZES
        for _ in range(2)
    ]
    (residual,) = fit_gloo(times, cores=2, source="test")[1]
    assert residual.error_p50_pct > 50
    assert residual.noise_pct == 0


def test_too_few_sizes_are_refused() -> None:
    times = [t for t in made_up(4, noise=0.0, repeats=1) if t.size_bytes in SIZES[:2]]
    with pytest.raises(NoVerdictError, match="too few sizes to calibrate from"):
        fit_gloo(times, cores=2, source="test")


def test_noise_is_the_difference_from_the_median_of_the_repetitions() -> None:
    times = [MeasuredTime("reduce", "int8", "max", 2, 8, t) for t in (90.0, 100.0, 130.0)]
    assert noise_pct(times) == pytest.approx(10.0)
    assert noise_pct(times[:1]) == 0.0
