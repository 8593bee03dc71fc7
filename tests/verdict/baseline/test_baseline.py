"""Baselines: what they hold, what they call slow, and what they refuse to judge."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from clusterlab.core.errors import NoVerdictError
from clusterlab.core.findings import Verdict
from clusterlab.verdict.against.noise import BANDS, SAME_MACHINE, band
from clusterlab.verdict.against.side import Side, label
from clusterlab.verdict.baseline.check import check, checked_to_json
from clusterlab.verdict.baseline.make import make_baseline
from clusterlab.verdict.baseline.model import Baseline, Made
from tests.benchmarks.run_pairs import (
    Change,
    everywhere,
    made_run,
    measured,
    of_band,
    of_collective,
)

SEVEN = measured("seven1")
ONE = measured("auto1")


def made(*names: str) -> Made:
    return Made("someone", "host", "2026-11-30T12:00:00Z", "0.1.0", names)


def sides(count: int, *, seed: int = 1, noise: float = 1.0, curve: object = SEVEN) -> list[Side]:
    rng = random.Random(seed)
    return [made_run(curve, rng, name=f"r{i}", noise=noise) for i in range(count)]  # type: ignore[arg-type]


def baseline(count: int = 3, **options: object) -> Baseline:
    runs = sides(count, **options)  # type: ignore[arg-type]
    return make_baseline("b.yaml", runs, made(*(run.name for run in runs)))


def a_run(
    change: Change | None = None, *, seed: int = 99, curve: object = SEVEN, **options: object
) -> Side:
    return made_run(curve, random.Random(seed), name="new", change=change, **options)  # type: ignore[arg-type]


def test_a_reference_is_the_median_over_runs_with_their_spread() -> None:
    runs = sides(3)
    made_of = make_baseline("b", runs, made())
    first = made_of.points[0]
    times = sorted(
        next(p for p in run.points if p.key == first.point.key).p50_us or 0 for run in runs
    )
    assert first.point.p50_us == times[1] and first.runs == 3
    mean = math.fsum(map(math.log, times)) / 3
    spread = math.sqrt(math.fsum((math.log(t) - mean) ** 2 for t in times) / 2)
    assert first.spread == pytest.approx(spread)
    assert first.slower is not None and first.faster is not None
    assert 1 / (1 + first.slower) == pytest.approx(1 - first.faster)


def test_the_tolerance_follows_the_spread_and_says_so() -> None:
    quiet, loud = baseline(6, noise=0.2), baseline(6, noise=4)
    for at in BANDS:
        few, many = (
            [r.slower for r in one.points if band(r.point.size_bytes) == at and r.slower]
            for one in (quiet, loud)
        )
        assert max(few) < min(many)
        assert quiet.noise[at].between < SAME_MACHINE[at] < loud.noise[at].between
    assert "spread between runs of 6" in quiet.tolerance
    alone = baseline(1)
    assert "one run says nothing" in alone.tolerance and alone.points[0].spread is None
    assert alone.noise["small"].between == SAME_MACHINE["small"]


def test_one_run_in_a_hundred_is_outside_at_a_point() -> None:
    outside = total = 0
    for seed in range(12):
        known = baseline(5, seed=seed)
        found = check(known, a_run(seed=1000 + seed))
        outside += sum(p.verdict is Verdict.SLOW for p in found.points)
        total += len(found.points)
    assert total > 2000 and outside / total < 0.025  # one side, strays (1.2 %) included


def test_a_stated_tolerance_is_every_point_s() -> None:
    runs = sides(2)
    known = make_baseline("b", runs, made(), tolerance=0.05)
    assert {(r.slower, r.faster) for r in known.points} == {(0.05, 0.05)}
    assert not known.noise and "5.0%" in known.tolerance and "as stated" in known.tolerance


@pytest.mark.parametrize("count", [1, 3])
def test_further_runs_pass_but_for_one_in_a_hundred(count: int) -> None:
    found = [check(baseline(count, seed=seed), a_run(seed=50 + seed)) for seed in range(12)]
    assert all(len(one.points) == len(SEVEN) for one in found)
    assert sum(one.verdict is Verdict.SLOW for one in found) <= 1
    assert sum(one.verdict is Verdict.PASS for one in found) >= 10


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (everywhere(1.2), Verdict.SLOW),
        (of_collective("reduce", 1.2), Verdict.SLOW),
        (of_band("broadcast", "mid", 1.1), Verdict.SLOW),
        (everywhere(0.8), Verdict.FAST_UNEXPECTED),
    ],
)
def test_what_changed_is_found(change: Change, verdict: Verdict) -> None:
    found = check(baseline(), a_run(change))
    assert found.verdict is verdict
    hit = [p for p in found.points if p.verdict is verdict]
    assert sum(change.where(p.point) for p in hit) >= 0.9 * sum(map(change.where, SEVEN))
    assert "broadcast mid" in found.reasons[0] or "broadcast" not in change.name


@pytest.mark.parametrize("stated", [True, False], ids=["intervals", "loops"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("at", [0, 6, 13])
@pytest.mark.parametrize(("factor", "passes"), [(1.02, True), (1.6, False), (4.0, False)])
def test_one_steady_point_far_out_is_no_pass(
    *, stated: bool, count: int, at: int, factor: float, passes: bool
) -> None:
    """Of runs that say an interval, and of nccl-tests' text, which has loops only."""
    rng = random.Random(4)
    curve = ONE[::4][:14]
    *known, run = [made_run(curve, rng, name=f"r{i}") for i in range(count + 1)]
    points = [*run.points]
    known_us = sorted(side.points[at].p50_us or 1 for side in known)[count // 2]
    points[at] = replace(points[at], p50_us=known_us * factor, loop_us=known_us * factor * 1.01)
    whole = [*known, replace(run, points=tuple(points))]
    if not stated:
        bare = {"p50_us": None, "low_us": None, "high_us": None, "iterations": None}
        whole = [replace(s, points=tuple(replace(p, **bare) for p in s.points)) for s in whole]  # type: ignore[arg-type]
    found = check(make_baseline("b", whole[:-1], made()), whole[-1])
    if passes:
        assert found.verdict is Verdict.PASS
    else:
        assert found.verdict is Verdict.NO_VERDICT
        assert "measure again" in found.reasons[0] and label(points[at]) in found.reasons[0]


def test_an_unsteady_point_far_out_is_not_judged() -> None:
    known, run = baseline(curve=ONE), a_run(curve=ONE)
    far = replace(run.points[20], p50_us=(run.points[20].p50_us or 1) * 2, steady=False)
    run = replace(run, points=(*run.points[:20], far, *run.points[21:]))
    assert check(known, run).verdict is Verdict.PASS


@pytest.mark.parametrize(("tolerance", "verdict"), [(0.05, Verdict.SLOW), (0.6, Verdict.PASS)])
def test_a_tolerance_stated_at_the_check_means_every_point(
    tolerance: float, verdict: Verdict
) -> None:
    run = a_run(curve=ONE)
    slow = replace(run.points[7], p50_us=run.points[7].p50_us * 1.5, low_us=None)  # type: ignore[operator]
    run = replace(run, points=(*run.points[:7], slow, *run.points[8:]))
    found = check(baseline(curve=ONE), run, tolerance=tolerance)
    assert found.verdict is verdict and not found.changes
    assert {p.slower for p in found.points} == {tolerance}


VERSIONS = {"measured": {"library_version": "2.28.9", "driver_version": "580"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": ("NVIDIA B200",)}, "other fabric"),
        ({"layout": "2 × 1"}, "other fabric"),
        ({"backend": "gloo"}, "other backend"),
        ({"problems": ("stand twice",)}, "stand twice"),
        ({"points": ()}, "no point"),
        ({"facts": {"measured": {"library_version": "2.29.2"}}}, "other versions"),
        ({"world_size": 4}, "other ranks"),
        ({"timing": "eager"}, "other timing mode"),
    ],
)
def test_what_a_baseline_is_not_of_gets_no_verdict(change: dict[str, object], said: str) -> None:
    runs = [
        replace(run, gpus=("NVIDIA H200",), layout="1 × 2", facts=VERSIONS)
        for run in sides(2, curve=ONE)
    ]
    known = make_baseline("b", runs, made("r0", "r1"))
    run = replace(
        a_run(everywhere(1.5), curve=ONE), gpus=("NVIDIA H200",), layout="1 × 2", facts=VERSIONS
    )
    if set(change) & {"world_size", "timing"}:
        run = replace(run, points=tuple(replace(p, **change) for p in run.points))  # type: ignore[arg-type]
    else:
        run = replace(run, **change)  # type: ignore[arg-type]
    found = check(known, run)
    assert found.verdict is Verdict.NO_VERDICT and said in " ".join(found.reasons)
    if said in {"other fabric", "other versions"}:
        word = said.removeprefix("other ")
        assert check(known, run, allowed={word}).verdict is Verdict.SLOW


@pytest.mark.parametrize("missing", [None, 4])
def test_missing_rows_are_no_pass_and_hide_nothing(missing: int | None) -> None:
    known = baseline(curve=ONE)
    whole, slow = a_run(curve=ONE), a_run(everywhere(1.4), curve=ONE)
    short = replace(whole, points=whole.points[:-4], missing=missing)
    found = check(known, short)
    assert found.verdict is Verdict.NO_VERDICT and "lacks 4 points" in found.reasons[0]
    assert check(known, short, allow_missing=True).verdict is Verdict.PASS
    bad = replace(slow, points=slow.points[:-4], missing=missing)
    assert check(known, bad).verdict is Verdict.SLOW


def test_points_that_a_baseline_lacks_are_no_pass() -> None:
    found = check(baseline(curve=ONE), a_run(curve=SEVEN))
    assert found.verdict is Verdict.NO_VERDICT and "not in the baseline" in found.reasons[0]


def test_unsteady_points_are_no_pass() -> None:
    run = a_run(curve=ONE)
    shaken = replace(run, points=tuple(replace(p, steady=False) for p in run.points))
    found = check(baseline(curve=ONE), shaken)
    assert found.verdict is Verdict.NO_VERDICT and "unsteady" in found.reasons[0]


def test_wrong_data_outranks_everything() -> None:
    run = a_run(everywhere(1.5), curve=ONE)
    wrong = replace(run, points=(replace(run.points[0], wrong=3), *run.points[1:]))
    found = check(baseline(curve=ONE), wrong)
    assert found.verdict is Verdict.INVALID and "3 wrong elements" in found.reasons[0]


def test_the_run_that_a_baseline_is_made_of_is_no_test_of_it() -> None:
    (only,) = sides(1, curve=ONE)
    found = check(make_baseline("b", [only], made(only.name)), only)
    assert found.verdict is Verdict.NO_VERDICT and "was made of" in found.reasons[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run_id": "r0"}, "given twice"),
        ({"missing": 2}, "lacks 2 points"),
        ({"problems": ("rows of schema versions 1 and 2",)}, "schema versions"),
        ({"facts": {"measured": {"library_version": "2.29.2"}}}, "other versions"),
        ({"gpus": ("NVIDIA B200",)}, "other fabric"),
        ({"wrong": 1}, "wrong data"),
    ],
)
def test_runs_that_are_not_of_one_thing_make_no_baseline(
    change: dict[str, object], said: str
) -> None:
    runs = [replace(run, gpus=("NVIDIA H200",), facts=VERSIONS) for run in sides(2, curve=ONE)]
    if "wrong" in change:
        points = runs[1].points
        runs[1] = replace(runs[1], points=(replace(points[0], wrong=1), *points[1:]))
    else:
        runs[1] = replace(runs[1], **change)  # type: ignore[arg-type]
    with pytest.raises(NoVerdictError, match=said):
        make_baseline("b", runs, made())


def shaken(run: Side, which: slice, factor: float = 1.0) -> Side:
    """``run`` with points that were unsteady, and longer."""
    chosen = {p.key for p in run.points[which]}
    return replace(
        run,
        points=tuple(
            replace(p, steady=False, p50_us=(p.p50_us or 1) * factor) if p.key in chosen else p
            for p in run.points
        ),
    )


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("tolerance", [None, 0.05])
@pytest.mark.parametrize("which", [slice(0, 1), slice(5, 7), slice(None)], ids=str)
def test_points_that_no_run_knows_are_no_reference_unless_that_is_meant(
    count: int, tolerance: float | None, which: slice
) -> None:
    runs = [shaken(run, which) for run in sides(count, curve=ONE)]
    with pytest.raises(NoVerdictError) as refused:
        make_baseline("b", runs, made(), tolerance=tolerance)
    assert label(ONE[which][0]) in str(refused.value) and "--allow-noisy" in str(refused.value)
    taken = make_baseline("b", runs, made(), tolerance=tolerance, allow_noisy=True)
    assert len(taken.points) == len(ONE)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_noisy_run_of_three_is_named_and_a_few_points_have_other_runs(at: int) -> None:
    runs = sides(3, curve=ONE)
    noisy = [shaken(run, slice(0, 10)) if i == at else run for i, run in enumerate(runs)]
    with pytest.raises(NoVerdictError, match=rf"r{at}: .* \(10 of {len(ONE)} points"):
        make_baseline("b", noisy, made())
    few = [shaken(run, slice(2, 4), factor=3.0) if i == at else run for i, run in enumerate(runs)]
    found = make_baseline("b", few, made())
    assert [r.runs for r in found.points[1:5]] == [3, 2, 2, 3]
    others = [run.points[2].p50_us or 0 for i, run in enumerate(runs) if i != at]
    assert min(others) <= (found.points[2].point.p50_us or 0) <= max(others)


def test_it_is_plain_data() -> None:
    import json

    found = check(baseline(curve=ONE), a_run(curve=ONE))
    data = json.loads(json.dumps(checked_to_json(found), allow_nan=False))
    assert data["verdict"] == "pass" and len(data["points"]) == len(ONE)
    assert data["made"]["by"] == "someone"
