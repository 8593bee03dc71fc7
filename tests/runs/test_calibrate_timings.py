"""Runs of NCCL as calibration rows: one timing told from another, half of the sizes scored by the others."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row, make_point
from clusterlab.cost.predict import predict
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.run_dir import create_run, start_attempt
from clusterlab.records.schema import row_to_line
from clusterlab.runs.calibrating.calibration_rows import read_rows
from clusterlab.runs.calibrating.hold_out import held, read_conditions
from tests.cost.calibrated.examples import request
from tests.records.fake_runs import fake_rows
from tests.runs.test_calibrate import run, write

SIZES = tuple(1 << e for e in range(10, 31))
LAUNCH_US = 52.0


def rows_of_run(timings: tuple[str, ...], *, slow: float = 1.1, **changes: object) -> list[Row]:
    """What ``predict`` says of eight H100, slower by a factor; eager calls wait for their launch."""
    rng = random.Random(7)
    points = [
        make_point(name, size, dtype("float32"), 8, timing=timing)
        for timing in timings
        for name in ("all_reduce", "all_gather")
        for size in SIZES
    ]
    rows = []
    for row in fake_rows(points):
        us = slow * predict(request("hgx-h100", 8, row.collective, row.size_bytes)).time_us
        if row.timing == "eager":
            us = max(us, LAUNCH_US * rng.uniform(0.97, 1.03))
        rows.append(
            replace(
                row, backend="nccl", time_us_loop=us, library_version="2.27.5", **changes,  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return rows


def run_with(root: Path, rows: list[Row]) -> Path:
    made = start_attempt(create_run("sweep", root=root))
    ranks = [
        RankPlacement(r, "n0", r, gpu=f"0000:{r}", gpu_name="NVIDIA H100 80GB HBM3")
        for r in range(8)
    ]
    write_placement(made.path, Placement(tuple(ranks)))
    write_fabric(made.path, FabricReference("hgx-h100", "0" * 64))
    made.records_path.write_bytes(b"".join(map(row_to_line, rows)))
    return made.path


def test_half_of_a_run_scored_by_the_other_half_each_by_its_timing(tmp_path: Path) -> None:
    path = run_with(tmp_path, rows_of_run(("eager", "graph", "direct")))
    found = run(path, hold_out=("half",))
    made = found.calibration
    assert made.issue == "graph" and made.versions == ("2.27.5",)
    assert found.rows == 2 * 11  # every second of 21 sizes is held out
    (launch,) = made.launches
    assert launch.issue == "eager" and launch.time_us == pytest.approx(LAUNCH_US, rel=0.02)
    assert launch.low_us < launch.time_us < launch.high_us and launch.points > 10
    groups = {score.group: score for score in found.held_out}
    assert groups["all rows"].n == 3 * 2 * 10
    for name in ("timing eager", "timing graph", "timing library"):
        score = groups[name]
        assert score.n == 2 * 10 and score.calibrated is not None
        assert score.calibrated.mape_pct < 4 and score.calibrated.median_pct < 4
        assert score.coverage_pct is not None and score.coverage_pct > 70
    eager = groups["timing eager"]
    assert eager.by_class and eager.calibrated and eager.by_class.mape_pct > 8
    assert any("not to" in note and "timing eager" in note for note in found.notes)


@pytest.mark.parametrize(
    ("timings", "wanted", "fitted"),
    [
        (("eager", "graph", "direct"), None, "graph"),
        (("eager", "direct"), None, "library"),
        (("eager", "graph"), None, "graph"),
        (("eager",), None, "eager"),
        (("eager", "graph", "direct"), "graph", "graph"),
        (("eager", "graph", "direct"), "eager", "eager"),
        (("graph", "direct"), "direct", "library"),
    ],
)
def test_which_timing_is_fitted(
    tmp_path: Path, timings: tuple[str, ...], wanted: str | None, fitted: str
) -> None:
    rows = rows_of_run(timings)
    assert run(run_with(tmp_path, rows), timing=wanted).calibration.issue == fitted


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("graph", "unknown timing 'graph'"), ("warm", "unknown timing 'warm'")],
)
def test_a_timing_without_rows_is_refused(tmp_path: Path, wanted: str, message: str) -> None:
    path = run_with(tmp_path, rows_of_run(("direct",)))
    with pytest.raises(UsageError, match=message):
        run(path, timing=wanted)


@pytest.mark.parametrize(
    "changes", [{"ranks": (0, 1)}, {"beside": "compute"}, {"uneven": "linear"}, {"aggregated": 4}]
)
def test_what_is_no_plain_call_of_all_ranks_is_no_row(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    plain = rows_of_run(("direct",))
    odd = rows_of_run(("graph",), **changes)
    found = read_rows([run_with(tmp_path, [*plain, *odd])], None)
    assert len(found.rows) == len(plain)


def test_every_second_size_of_each_curve_is_held_out(tmp_path: Path) -> None:
    """Curves of other collectives, types and ranks do not shift each other's sizes."""
    path = run_with(tmp_path, rows_of_run(("direct",)))
    points = [row.point for row in read_rows([path], None).rows]
    points = [p for p in points if p.collective == "all_reduce" or p.size_bytes != SIZES[0]]
    flags = held(points, read_conditions(["half"]))
    for name, first in (("all_reduce", 0), ("all_gather", 1)):
        out = [
            p.size_bytes for p, f in zip(points, flags, strict=True) if f and p.collective == name
        ]
        assert sorted(out) == list(SIZES[first + 1 :: 2])


def test_half_of_one_size_is_refused(tmp_path: Path) -> None:
    text = "h100_sxm,2.27.5,all_reduce,half,8,1024,12\n" * 3
    with pytest.raises(UsageError, match="--hold-out half: holds 0 of"):
        run(write(tmp_path / "m.csv", text), hold_out=("half",))
