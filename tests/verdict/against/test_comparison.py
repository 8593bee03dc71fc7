"""A run against a run: what is called a regression, what is refused, and what is no verdict."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import pytest

from clusterlab.core.errors import ExitCode
from clusterlab.verdict.against.changes import What, holm
from clusterlab.verdict.against.comparison import FAR_RATIO, Outcome, against
from clusterlab.verdict.against.facts import differences
from clusterlab.verdict.against.noise import OTHER_MACHINE, SAME_MACHINE
from clusterlab.verdict.against.side import Side, Timed, label, split_passes
from clusterlab.verdict.against.to_json import comparison_to_json
from tests.benchmarks.run_pairs import (
    Change,
    everywhere,
    made_run,
    measured,
    of_band,
    of_collective,
    runs,
)

SEVEN = measured("seven1")
ONE = measured("auto1")


def both(
    change: Change | None = None, *, seed: int = 1, curve: list[Timed] = SEVEN
) -> tuple[Side, Side]:
    rng = random.Random(seed)
    return made_run(curve, rng, name="a"), made_run(curve, rng, name="b", change=change)


@pytest.mark.parametrize("seed", range(8))
def test_runs_of_one_thing_are_the_same(seed: int) -> None:
    found = against(*both(seed=seed))
    assert found.outcome is Outcome.SAME and found.outcome.exit_code == ExitCode.OK
    assert len(found.changes) == 7 * 3 + 3 and all(c.tested for c in found.changes)


@pytest.mark.parametrize("factor", [0.8, 1.25])
@pytest.mark.parametrize("at", ["small", "mid", "large"])
def test_a_change_is_found_where_it_is_and_nowhere_else(at: str, factor: float) -> None:
    found = against(*both(of_band("broadcast", at, factor)))
    changed = {(c.collective, c.band): c for c in found.changes if c.what is not What.SAME}
    assert list(changed) == [("broadcast", at)]
    (change,) = changed.values()
    assert change.low is not None and change.high is not None
    assert change.low < factor < change.high
    assert found.outcome is (Outcome.REGRESSION if factor > 1 else Outcome.IMPROVEMENT)
    assert "broadcast" in found.reasons[0] and at in found.reasons[0]


def test_a_regression_outranks_an_improvement() -> None:
    first, second = both(of_collective("reduce", 0.7))
    points = [
        replace(p, p50_us=p.p50_us * 1.4, low_us=None, high_us=None)
        if p.collective == "broadcast" and p.p50_us
        else p
        for p in second.points
    ]
    assert against(first, replace(second, points=tuple(points))).outcome is Outcome.REGRESSION


def test_measured_repeats_are_no_regression() -> None:
    """Every pair of the sweeps that the noise was measured with."""
    sides = [
        Side(name, tuple(measured(name)), run_id=name, machine=("h/0", "h/1"), missing=0)
        for name in runs()
    ]
    outcomes = [against(a, b).outcome for a in sides for b in sides if a is not b]
    assert len(outcomes) == 20 and Outcome.REGRESSION not in outcomes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"world_size": 4}, "ranks"),
        ({"timing": "eager"}, "timing mode"),
        ({"size_bytes": 7}, "size"),
        ({"dtype": "int8"}, "dtype float32 and int8"),
        ({"collective": "all_to_all_v"}, "collective"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_what_differs(
    change: dict[str, object], said: str
) -> None:
    first, second = both(curve=ONE)
    second = replace(second, points=tuple(replace(p, **change) for p in second.points))  # type: ignore[arg-type]
    found = against(first, second)
    assert found.outcome is Outcome.NO_VERDICT and found.outcome.exit_code == ExitCode.NO_VERDICT
    assert any(said in reason and "comparable would be" in reason for reason in found.reasons)
    assert not found.pairs and not found.changes


@pytest.mark.parametrize(
    "change",
    [
        {"gpus": ("NVIDIA B200",)},
        {"layout": "2 × 1"},
        {"fabric": "other.yaml (00000000)", "machine": ("x/0", "x/1")},
    ],
)
def test_another_fabric_is_refused_unless_it_is_meant(change: dict[str, object]) -> None:
    first, second = both(curve=ONE)
    first = replace(first, gpus=("NVIDIA H200",), layout="1 × 2", fabric="h200-2.yaml (11111111)")
    second = replace(replace(first, run_id="b", name="b", points=second.points), **change)  # type: ignore[arg-type]
    found = against(first, second)
    assert found.outcome is Outcome.NO_VERDICT and "other fabric" in found.reasons[0]
    assert against(first, second, allowed={"fabric"}).pairs


def test_one_machine_predicted_as_two_fabrics_is_one_machine() -> None:
    first, second = both(curve=ONE)
    other = replace(second, fabric="discovered (22222222)")
    assert against(replace(first, fabric="h200-2.yaml (1)"), other).outcome is Outcome.SAME


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"problems": ("its rows are of schema versions 1 and 2",)}, "schema versions 1 and 2"),
        ({"missing": 3}, "lacks 3 points of its plan"),
        ({"points": ()}, "holds no point"),
    ],
)
def test_a_side_that_is_unfit_is_never_a_pass(
    side: int, change: dict[str, object], said: str
) -> None:
    pair = [*both(curve=ONE)]
    pair[side] = replace(pair[side], **change)  # type: ignore[arg-type]
    found = against(*pair)
    assert found.outcome is Outcome.NO_VERDICT
    assert said in " ".join(found.reasons)


def test_the_same_run_twice_is_no_comparison() -> None:
    first, second = both(curve=ONE)
    found = against(first, replace(second, run_id="a"))
    assert found.outcome is Outcome.NO_VERDICT and "the same run is given twice" in found.reasons[0]
    again = against(first, second, repeats=[replace(second, name="c")])
    assert again.outcome is Outcome.NO_VERDICT


@pytest.mark.parametrize("side", [0, 1])
def test_rows_that_one_side_lacks_without_a_plan_are_missing(side: int) -> None:
    pair = [replace(one, missing=None) for one in both(curve=ONE)]
    pair[side] = replace(pair[side], points=pair[side].points[:-4])
    found = against(*pair)
    assert found.outcome is Outcome.NO_VERDICT and "lacks 4 points" in found.reasons[0]
    assert against(*pair, allow_missing=True).outcome is Outcome.SAME


def test_missing_rows_do_not_hide_a_regression() -> None:
    first, second = both(everywhere(1.3), curve=ONE)
    assert against(first, replace(second, missing=9)).outcome is Outcome.REGRESSION


def test_a_shorter_plan_is_a_note() -> None:
    first, second = both(curve=ONE)
    short = replace(second, points=second.points[:40])
    found = against(first, short)
    assert found.outcome is Outcome.SAME
    assert any("20 points are in a only" in note for note in found.notes)


@pytest.mark.parametrize("side", [0, 1])
def test_wrong_data(side: int) -> None:
    pair = [*both(curve=ONE)]
    points = (replace(pair[side].points[0], wrong=2), *pair[side].points[1:])
    pair[side] = replace(pair[side], points=points)
    found = against(*pair)
    assert found.outcome is (Outcome.INVALID if side else Outcome.NO_VERDICT)
    assert "wrong data at 1 points" in found.reasons[0]


@pytest.mark.parametrize("count", [1, 2])
def test_a_few_points_need_intervals_and_must_agree(count: int) -> None:
    first, second = both(everywhere(1.3), curve=ONE)
    keys = {p.key for p in first.points[-count:]}
    few = [replace(s, points=tuple(p for p in s.points if p.key in keys)) for s in (first, second)]
    assert against(*few).outcome is Outcome.REGRESSION
    bare = [replace(s, points=tuple(replace(p, low_us=None) for p in s.points)) for s in few]
    found = against(*bare)
    assert found.outcome is Outcome.NO_VERDICT and "without an interval" in found.reasons[0]
    if count == 2:
        one_strays = (replace(few[0].points[0]), few[1].points[1])
        split = replace(few[1], points=one_strays)
        found = against(few[0], split)
        assert found.outcome is Outcome.NO_VERDICT and "far out" in found.reasons[0]


@pytest.mark.parametrize("stated", [True, False], ids=["intervals", "loops"])
@pytest.mark.parametrize("strays", [(3,), (30,), (55,), (3, 30, 55)], ids=str)
@pytest.mark.parametrize("factor", [3.0, 1.375, 1.02, 0.2])
def test_a_point_that_is_slower_alone_is_neither_the_same_nor_a_regression(
    *, stated: bool, strays: tuple[int, ...], factor: float
) -> None:
    """Chance slows one point in some two thousand, and not by 1.375 within what a point has alone."""
    first, second = both(curve=ONE)
    points = [*second.points]
    for i in strays:
        known = first.points[i]
        ours, low, high = ((t or 1) * factor for t in (known.p50_us, known.low_us, known.high_us))
        points[i] = replace(
            points[i], p50_us=ours, low_us=low, high_us=high, loop_us=known.loop_us * factor
        )
    sides = [first, replace(second, points=tuple(points))]
    if not stated:
        bare = {"p50_us": None, "low_us": None, "high_us": None, "iterations": None}
        sides = [replace(s, points=tuple(replace(p, **bare) for p in s.points)) for s in sides]  # type: ignore[arg-type]
    found = against(*sides)
    if factor < FAR_RATIO:
        assert found.outcome is Outcome.SAME
        return
    assert found.outcome is Outcome.NO_VERDICT
    assert "measure again" in found.reasons[0]
    assert all(label(points[i]) in found.reasons[0] for i in strays)


@pytest.mark.parametrize("machine", [None, ("y/0", "y/1")])
def test_far_out_is_what_chance_does_not_explain(machine: tuple[str, str] | None) -> None:
    """Other machines differ by 10 % at small sizes: a point that takes 1.3 times as long is one of them."""
    first, second = both(curve=ONE)
    points = list(second.points)
    points[3] = replace(points[3], p50_us=(first.points[3].p50_us or 1) * 1.3)
    found = against(first, replace(second, points=tuple(points), machine=machine))
    assert any("far out" in reason for reason in found.reasons) is (machine is None)


def test_unsteady_points_are_not_judged() -> None:
    first, second = both(everywhere(1.5), curve=ONE)
    shaken = replace(second, points=tuple(replace(p, steady=False) for p in second.points))
    found = against(first, shaken)
    assert found.outcome is Outcome.NO_VERDICT and "unsteady" in found.reasons[0]


def test_noise_that_hides_everything_is_no_pass() -> None:
    rng = random.Random(1)
    loud = [made_run(SEVEN, rng, name=name, noise=30) for name in "ab"]
    found = against(*loud)
    assert found.outcome is Outcome.NO_VERDICT and "noise" in found.reasons[0]
    assert "scatter" in (found.noise or {})["large"].source


def test_where_the_noise_is_from_is_said() -> None:
    first, _ = both(curve=ONE)
    second = replace(first, run_id="b", name="b")
    noise = against(first, second).noise or {}
    assert noise["large"].between == SAME_MACHINE["large"] and "two H200" in noise["large"].source
    other = against(first, replace(second, machine=("y/0", "y/1"))).noise or {}
    assert other["small"].between == OTHER_MACHINE["small"] and "published" in other["small"].source
    unknown = against(replace(first, machine=None), second).noise or {}
    assert "assumed" in unknown["mid"].source
    stated = against(first, second, stated_noise=0.2).noise or {}
    assert stated["mid"].between == 0.2 and "as stated" in stated["mid"].source


def test_repeats_say_how_far_runs_differ() -> None:
    rng = random.Random(5)
    names = [made_run(SEVEN, rng, name=name, noise=0.1) for name in "abcd"]
    quiet = against(names[0], names[1], repeats=names[2:]).noise or {}
    assert quiet["small"].between < 0.5 * SAME_MACHINE["small"]
    assert "14 medians of repeated runs" in quiet["small"].source
    loud = [made_run(SEVEN, rng, name=name, noise=5) for name in "efg"]
    wild = against(loud[0], loud[1], repeats=loud[2:]).noise or {}
    assert wild["large"].between > 2 * SAME_MACHINE["large"]


def test_earlier_attempts_of_a_run_are_repeats() -> None:
    first, second = both(curve=ONE)
    earlier = tuple(replace(p, attempt=0) for p in first.points)
    noise = against(replace(first, passes=earlier), second).noise or {}
    assert "repeated runs" in noise["small"].source
    assert noise["small"].between < SAME_MACHINE["small"]


def test_a_point_twice_in_one_attempt_with_other_figures_is_a_problem() -> None:
    one = ONE[0]
    other = replace(one, p50_us=99.0)
    assert split_passes([one, other])[2][0].startswith("1 points stand twice in one attempt")
    assert split_passes([one, one]) == ((one,), (), ())
    later = replace(other, attempt=2)
    assert split_passes([one, later]) == ((later,), (one,), ())


def test_sizes_that_padding_makes_one_are_one_point() -> None:
    asked = [replace(ONE[0], asked_bytes=n, p50_us=float(n)) for n in (1, 2)]
    assert split_passes(asked) == ((asked[1],), (), ())


def test_loops_are_compared_with_loops() -> None:
    first, second = both(curve=ONE)
    loops = replace(
        second,
        foreign=True,
        points=tuple(
            replace(p, p50_us=None, low_us=None, high_us=None, op=None) for p in second.points
        ),
    )
    found = against(first, loops)
    assert found.pairs and all(p.first_us == p.first.loop_us for p in found.pairs)


def test_a_type_that_a_file_leaves_out_is_taken_from_the_other() -> None:
    first, second = both(curve=ONE)
    bare = replace(
        second,
        foreign=True,
        points=tuple(replace(p, dtype=None, timing=None) for p in second.points),
    )
    found = against(first, bare)
    assert len(found.pairs) == len(ONE)
    assert sum("does not say its" in note for note in found.notes) == 2


def test_only_what_differs_is_listed() -> None:
    facts: dict[str, dict[str, object]] = {
        "configuration": {"backend": "nccl", "sizes_bytes": [8, 16]},
        "environment": {"NCCL_ALGO": "Ring", "SLURM_JOB_ID": "7"},
        "versions": {"nccl": "2.28.9", "torch": None},
    }
    other: dict[str, dict[str, object]] = {
        "configuration": {"backend": "nccl", "sizes_bytes": [8, 32]},
        "environment": {"SLURM_JOB_ID": "8"},
        "versions": {"nccl": "2.29.2", "torch": None},
    }
    first, second = both(curve=ONE)
    first, second = replace(first, facts=facts), replace(second, facts=other)
    found = [(d.group, d.name, d.first, d.second) for d in differences(first, second)]
    assert found == [
        ("configuration", "sizes_bytes", [8, 16], [8, 32]),
        ("environment", "NCCL_ALGO", "Ring", None),
        ("versions", "nccl", "2.28.9", "2.29.2"),
    ]
    foreign = replace(second, foreign=True)
    assert [d.name for d in differences(first, foreign)] == ["sizes_bytes", "nccl"]


def test_it_is_plain_data() -> None:
    data = json.loads(json.dumps(comparison_to_json(against(*both(curve=ONE))), allow_nan=False))
    assert data["verdict"] == "same" and data["points_in_common"] == len(ONE)
    point = data["points"][0]
    assert point["low"] < point["ratio"] < point["high"]
    assert point["ratio"] == pytest.approx(point["second_us"] / point["first_us"])


@pytest.mark.parametrize(
    ("chances", "rejected"),
    [
        ([0.001, 0.5, 0.004], [True, False, True]),
        ([0.004, 0.5, 0.004], [False, False, False]),
        ([0.2], [False]),
        ([], []),
    ],
)
def test_holm_s_method(chances: list[float], rejected: list[bool]) -> None:
    assert holm(chances) == rejected


def test_the_shipped_noise_is_that_of_the_measured_sweeps() -> None:
    """By band: the root mean square of the change of a collective's median, over all pairs of sweeps."""
    sides = [Side(name, tuple(measured(name))) for name in runs()]
    for at, shipped in SAME_MACHINE.items():
        found = [
            math.log(c.ratio)
            for i, a in enumerate(sides)
            for b in sides[i + 1 :]
            for c in against(a, b, allow_missing=True).changes
            if c.band == at and c.collective and c.ratio and c.points >= 3
        ]
        rms = math.sqrt(math.fsum(x * x for x in found) / len(found))
        assert shipped == pytest.approx(rms, rel=0.15)
