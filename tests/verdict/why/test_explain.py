"""``explain_table``: verdicts, and single changes named among the first causes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from clusterlab.core.findings import Verdict
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.scored import request_for
from clusterlab.verdict.why.described import Said
from clusterlab.verdict.why.explain import candidates, explain_table
from clusterlab.verdict.why.rank import unsure
from clusterlab.verdict.why.scene import Scene
from clusterlab.verdict.why.taxonomy import causes
from clusterlab.verdict.why.world import world_of
from tests.verdict.why.systems import SIZES, SYSTEMS, at_most, changed, points_of


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_model_says_is_as_expected(system: str, collective: str) -> None:
    answer = explain_table(changed(points_of(system, collective), lambda _, t: t))
    assert answer.verdict == Verdict.PASS, answer.reason
    assert not answer.detected and "ordinary" in answer.reason


def after(first: int, factor: float) -> Callable[[int, float], float]:
    return lambda size, time_us: time_us * (factor if size >= first else 1.0)


def scene_of(system: str) -> Scene:
    points = tuple(points_of(system))
    return Scene(world_of(request_for(points[-1], None, Asked())), points)


CHANGES: dict[str, tuple[str, str, Callable[[int, float], float]]] = {
    "host memory instead of NVLink": ("h100-8", "P2P_DISABLED", at_most(8.0, 1.75, 30.0)),
    "rings instead of NVLS": ("h100-8", "NVLS_OFF", at_most(362.0, 1.75)),
    "half the links of one GPU": ("h100-8", "SLOW_LINK", at_most(240.0, 1.75)),
    "LL at every size": ("h100-8", "PROTO_FORCED", at_most(150.0, 1.75)),
    "two channels": ("h100-8", "TOO_FEW_CHANNELS", at_most(38.0, 1.75)),
    "TCP on Slingshot": ("gh200-2x4", "TCP_FALLBACK", at_most(5.0, 1.75, 150.0)),
    "NICs at half width": ("a100-4x8", "NIC_HALF_WIDTH", at_most(93.0, 1.9375)),
    "one NIC of eight": ("a100-4x8", "FEWER_NICS_THAN_EXPECTED", at_most(23.4, 1.9375)),
    "no GPUDirect": ("h100-2x8", "GDR_OFF", at_most(230.0, 1.875, 38.0)),
    "a slow clock": ("h100-8", "SLOW_RANK", lambda _, t: 2.0 * t),
    "a late rank": ("a100-4x8", "SLOW_RANK", lambda _, t: t + 900.0),
    "a window of sizes": (
        "gh200-2x4", "LIBRARY_BUG", lambda s, t: t * (5 if (1 << 18) <= s <= (1 << 21) else 1),
    ),
    "calls that take long to issue": ("h100-8", "HOST_OVERHEAD_SMALL", lambda _, t: max(t, 70.0)),
    "a cold first row": (
        "h100-2x8", "COLD_START_OR_WARMUP", lambda s, t: t * (9 if s == SIZES[0] else 1),
    ),
    "a network that collapses": ("a100-4x8", "CONGESTION_OVERSUBSCRIPTION", after(32 << 20, 8.0)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_is_among_the_first_three(change: str) -> None:
    system, code, make = CHANGES[change]
    answer = explain_table(changed(points_of(system), make))
    named = [h.code for h in answer.hypotheses[:3]]
    assert code in named, [(h.code, h.score, h.variant) for h in answer.hypotheses[:5]]


@pytest.mark.parametrize(
    ("code", "severity"),
    [("SLOW_RANK", late) for late in (85.0, 260.0, 900.0, 2600.0)]
    + [("HOST_OVERHEAD_SMALL", floor) for floor in (110.0, 190.0, 330.0)],
)
def test_any_severity_is_named_not_those_alone_that_are_tried(code: str, severity: float) -> None:
    def make(_: int, time_us: float) -> float:
        return time_us + severity if code == "SLOW_RANK" else max(time_us, severity)

    answer = explain_table(changed(points_of("a100-4x8"), make))
    named = {h.code: h.fit for h in answer.hypotheses[:3]}
    assert code in named, [(h.code, h.score, h.variant) for h in answer.hypotheses[:5]]
    assert (named[code] or 9) < 1.1


@pytest.mark.parametrize("system", ["h100-2x8", "a100-4x8", "l40s-4"])
def test_what_is_slower_along_with_the_bytes_lies_between_its_ends(system: str) -> None:
    scene = scene_of(system)
    slower = scene.expected + math.log(2.5) * scene.bytes_share(scene.expected)
    none, half, whole = (scene.added(slower, along) for along in (0.0, 0.5, 1.0))
    assert (scene.expected <= none + 1e-9).all() and (none <= half).all() and (half <= whole).all()
    assert whole - scene.expected == pytest.approx(
        np.minimum(whole - scene.expected, math.log(2.5) + 1e-9)
    )
    assert none[-1] - scene.expected[-1] == pytest.approx(math.log(2.5), abs=0.1)


def test_no_cause_is_known_worse_than_another_but_where_it_says_so() -> None:
    scene = scene_of("h100-2x8")
    every = list(candidates(scene))
    widths = {one.code: unsure(one).model for one in every if one.inside is None}
    assert len(widths) > 12
    assert min(widths.values()) >= 0.1
    wider = {code for code, width in widths.items() if width > 0.1}
    # Host memory, sockets, cores and a network that collapses differ from host to host.
    assert wider <= {
        "P2P_DISABLED", "TCP_FALLBACK", "CPU_AFFINITY", "CONGESTION_OVERSUBSCRIPTION",
    }  # fmt: skip


@pytest.mark.parametrize("change", [c for c in CHANGES if "cold" not in c and "clock" not in c])
def test_what_is_twice_off_is_detected(change: str) -> None:
    system, _, make = CHANGES[change]
    points = changed(points_of(system), make)
    slower = [p.time_us / q.time_us for p, q in zip(points, points_of(system), strict=True)]
    if sorted(slower)[-4] < 2:
        pytest.skip("not twice off at four sizes")
    answer = explain_table(points)
    assert answer.verdict == Verdict.SLOW and answer.detected, answer.reason


def test_scores_are_probabilities_best_first_and_every_cause_is_known() -> None:
    answer = explain_table(changed(points_of("h100-2x8"), at_most(60.0, 1.875)))
    scores = [h.score for h in answer.hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1.0)
    assert {h.code for h in answer.hypotheses} <= set(causes())
    assert "UNKNOWN" in {h.code for h in answer.hypotheses}
    for one in answer.hypotheses:
        assert one.check and "GB/s" in one.evidence and one.fit and one.fit >= 1.0


@pytest.mark.parametrize(
    ("system", "impossible"),
    [
        ("h100-8", {"GDR_OFF", "TCP_FALLBACK", "NIC_HALF_WIDTH", "ECMP_COLLISIONS", "TOO_FEW_QPS"}),
        ("a100-4x8", {"NVLS_OFF"}),
        ("gh200-2x4", {"NVLS_OFF"}),
    ],
)
def test_a_system_is_not_accused_of_what_it_has_not(system: str, impossible: set[str]) -> None:
    answer = explain_table(changed(points_of(system), lambda _, t: 3 * t))
    assert answer.verdict == Verdict.SLOW
    assert not impossible & {h.code for h in answer.hypotheses}


def test_what_the_run_says_of_itself_comes_first_and_is_quoted() -> None:
    points = changed(points_of("h100-8"), at_most(60.0, 1.75))
    without = {h.code: h.score for h in explain_table(points).hypotheses}
    answer = explain_table(points, said=[Said("TOO_FEW_CHANNELS", "NCCL_MAX_CTAS=4")])
    top = answer.hypotheses[0]
    assert top.code == "TOO_FEW_CHANNELS" and top.score > without["TOO_FEW_CHANNELS"]
    assert "NCCL_MAX_CTAS=4" in top.evidence


def test_a_much_faster_table_is_no_pass() -> None:
    answer = explain_table(changed(points_of("h100-8"), lambda _, t: t / 3))
    assert answer.verdict == Verdict.FAST_UNEXPECTED
    assert not answer.detected and not answer.hypotheses


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ([], "no rows"),
        (points_of("h100-8")[:1], "one point"),
        ([replace(p, gpu="Gaudi3", system="x") for p in points_of("h100-8")], "no known GPU"),
        ([replace(p, inter_fabric="Omni-Path") for p in points_of("h100-2x8")], "no prediction"),
    ],
)
def test_nothing_is_a_pass_that_was_not_looked_at(points: list, reason: str) -> None:  # type: ignore[type-arg]
    answer = explain_table(points)
    assert answer.verdict == Verdict.NO_VERDICT
    assert reason in answer.reason


def test_the_order_of_rows_does_not_matter() -> None:
    points = changed(points_of("h100-8"), at_most(100.0, 1.75))
    there, back = explain_table(points), explain_table(points[::-1])
    assert there.slowdown == back.slowdown
    assert [h.code for h in there.hypotheses] == [h.code for h in back.hypotheses]


def test_one_row_far_off_accuses_nobody() -> None:
    points = points_of("h100-2x8")
    for at in range(4, len(points), 6):
        spoilt = [
            replace(p, time_us=p.time_us * (4 if i == at else 1)) for i, p in enumerate(points)
        ]
        answer = explain_table(spoilt)
        assert not answer.detected, (points[at].size_bytes, answer.reason)
