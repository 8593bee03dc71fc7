"""A run of overlaps is judged by its data only."""

from __future__ import annotations

from typing import Any

import pytest

from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import FIGURES, Figure, Overlap
from clusterlab.verdict.overlap import ONLY_DATA, judge_overlaps, planned_overlaps
from clusterlab.verdict.run_verdict import judge_run
from tests.records.fake_runs import fake_rows, points, renamed

CONFIGURATION = {
    "measures": "overlap",
    "typed": {"collectives": ["all_reduce"], "sizes_bytes": [1024, 4096]},
    "beside": ["compute", "all_gather"],
}


def overlap_of(
    beside: str, size: int, *, wrong: int | None = 0, other_wrong: int | None = 0
) -> Any:
    figures: dict[str, Any] = {name: Figure(2.0, 1.0, 3.0) for name in FIGURES}
    return Overlap(
        collective="all_reduce", beside=beside, dtype="float32", op="sum", size_bytes=size,
        requested_bytes=size, world_size=2, backend="gloo", rounds=4, calls=1, compute=None,
        wrong=wrong, other_wrong=other_wrong, max_ctas=None, attempt=1,
        time_utc="2026-11-29T12:00:00Z", **figures,
    )  # fmt: skip


ALL = [overlap_of(beside, size) for beside in ("compute", "all_gather") for size in (1024, 4096)]


@pytest.mark.parametrize(
    ("last", "verdict", "says"),
    [
        ({}, Verdict.PASS, ONLY_DATA),
        ({"wrong": 2}, Verdict.INVALID, "1 of 4 overlaps delivered wrong"),
        ({"other_wrong": 1}, Verdict.INVALID, "all_reduce + all_gather"),
        ({"wrong": None}, Verdict.NO_VERDICT, "1 of 4 overlaps not checked"),
        ({"other_wrong": None}, Verdict.NO_VERDICT, "1 of 4 overlaps not checked"),
        (None, Verdict.NO_VERDICT, "1 overlaps were not measured"),
    ],
)
def test_both_sides_of_every_overlap_count(
    last: dict[str, Any] | None, verdict: Verdict, says: str
) -> None:
    planned = planned_overlaps(CONFIGURATION)
    assert planned is not None
    assert planned.count == 4
    ends = [] if last is None else [overlap_of("all_gather", 4096, **last)]
    judged = judge_overlaps([*ALL[:-1], *ends], planned)
    assert judged.verdict == verdict
    assert says in judged.reason


def test_other_runs_are_not_of_overlaps() -> None:
    assert planned_overlaps({"backend": "gloo"}) is None
    assert planned_overlaps({"measures": "soak"}) is None


@pytest.mark.parametrize("factor", [0.01, 1.0, 100.0])
def test_times_of_such_a_run_are_in_no_verdict(factor: float) -> None:
    rows = [
        renamed(r, time_us_loop=factor * r.time_us_loop) for r in fake_rows(points(["all_reduce"]))
    ]
    found = judge_run(rows, by_data_only=True)
    assert found.summaries == ()
    assert not any(found.counts.values())
    assert found.points == len(rows)
