"""From a soak's passes to what is said of them."""

from __future__ import annotations

import numpy as np
import pytest

from clusterlab.core.findings import Severity, Verdict
from clusterlab.core.soaking import SoakPass
from clusterlab.report.console.soak import soak_lines
from clusterlab.verdict.soak import (
    TOLERANCE,
    judge_soak,
    soak_findings,
    soak_word,
    soaked,
    tolerance_of,
)


def passes(
    medians: np.ndarray, *, size: int = 1 << 20, temperature: bool = False, wrong_at: int = -1
) -> list[SoakPass]:
    return [
        SoakPass(
            number=i + 1,
            attempt=1,
            elapsed_s=float(i),
            time_utc="2026-11-30T00:00:00Z",
            collective="all_reduce",
            dtype="float32",
            op="sum",
            in_place=False,
            requested_bytes=size,
            size_bytes=size,
            iterations=20,
            time_us_loop=float(us),
            time_us_p50=float(us),
            time_us_min=float(us) * 0.9,
            time_us_max=float(us) * 1.2,
            time_us_p95=float(us) * 1.1,
            wrong=int(i == wrong_at),
            gpu_clock_mhz=1980.0 if temperature else None,
            gpu_temp_c=float(us) / 2 if temperature else None,
            throttled="sw_thermal" if temperature and us > 104 else None,
        )
        for i, us in enumerate(medians)
    ]


def noise(n: int, cv: float, seed: int = 1) -> np.ndarray:
    return 100 * (1 + cv * np.random.default_rng(seed).standard_normal(n))


def test_points_are_told_apart_and_the_gravest_speaks() -> None:
    steady, rising = noise(300, 0.01), noise(300, 0.01, 2) * (1 + 0.1 * np.arange(300) / 300)
    points = soaked([*passes(steady), *passes(rising, size=1 << 22)])
    assert [p.drift.verdict for p in points] == [Verdict.PASS, Verdict.SLOW]
    judged = judge_soak(points)
    assert judged.verdict == Verdict.SLOW
    assert "4 MiB" in judged.reason
    assert "1 MiB" not in judged.reason
    (finding,) = soak_findings(points)
    assert finding.severity == Severity.ERROR
    assert soak_findings(points[:1]) == ()


def test_wrong_data_outranks_all_and_nothing_is_no_verdict() -> None:
    points = soaked(passes(noise(100, 0.01), wrong_at=40))
    assert judge_soak(points).verdict == Verdict.INVALID
    assert judge_soak(()).verdict == Verdict.NO_VERDICT


def test_temperature_and_throttle_are_evidence() -> None:
    rising = noise(300, 0.002) * (1 + 0.1 * np.arange(300) / 300)
    (point,) = soaked(passes(rising, temperature=True))
    assert point.with_temperature == pytest.approx(1.0)
    assert point.with_clock is None  # it never changed
    (finding,) = soak_findings([point])
    assert any("temperature" in line for line in finding.evidence)
    assert any("sw_thermal" in line for line in finding.evidence)
    assert soaked(passes(rising))[0].with_temperature is None


@pytest.mark.parametrize("by", [-0.3, 0.3])
def test_for_people_a_soak_changed_whichever_way(by: float) -> None:
    """fast_unexpected is a word for speed beside a prediction."""
    points = soaked(passes(noise(300, 0.01) * (1 + by * (np.arange(300) > 150))))
    assert judge_soak(points).verdict == (Verdict.SLOW if by > 0 else Verdict.FAST_UNEXPECTED)
    assert soak_lines(points)[2].startswith("  changed: ")
    assert soak_word(judge_soak(points).verdict) == "changed"
    assert soak_word(Verdict.INVALID) == "invalid"


def test_faster_is_a_warning() -> None:
    falling = noise(300, 0.01) * (1 - 0.1 * np.arange(300) / 300)
    (finding,) = soak_findings(soaked(passes(falling)))
    assert finding.severity == Severity.WARNING


def test_many_points_share_the_chance_of_a_false_alarm() -> None:
    """40 points of noise alone, ten times: a run is rarely said to have changed."""
    alarms = 0
    for trial in range(10):
        many = [
            one
            for i in range(40)
            for one in passes(noise(60, 0.1, 1000 * trial + i), size=1 << (i + 3))
        ]
        alarms += bool(soak_findings(soaked(many)))
    assert alarms <= 2


def test_the_tolerance_is_the_configuration_s() -> None:
    assert tolerance_of({}) == TOLERANCE
    assert tolerance_of({"tolerance": 0.1}) == 0.1
