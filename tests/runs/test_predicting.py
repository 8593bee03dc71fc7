"""Which fabric a sweep is predicted on, and what is said when it is another machine's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.measurement import Measurement
from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.core.rows import make_point, make_row
from clusterlab.cost.calibrated.file import to_yaml
from clusterlab.cost.host_overhead import LAUNCH_US
from clusterlab.cost.issue import ISSUE_OF_TIMING, issue_of
from clusterlab.cost.types import Issue
from clusterlab.records.documents import read_fabric
from clusterlab.records.run_dir import create_run
from clusterlab.runs.sweeping.plan import SweepConfig, make_plan
from clusterlab.runs.sweeping.predicting import choose_model, given_calibration, predict_points
from clusterlab.runs.sweeping.rank import _open
from clusterlab.runs.sweeping.resolved import job_of, unsupported_by
from clusterlab.runs.sweeping.sweep import SweepStart
from clusterlab.runs.whereabouts import Whereabouts
from clusterlab.verdict.judge import Why, judge_row
from tests.cost.calibrated.examples import calibration

GPUS = Placement(
    tuple(RankPlacement(r, "h", r, gpu_name="NVIDIA H100 80GB HBM3") for r in range(8))
)
MEASURED = Measurement(20, 5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.01, 0)


def test_a_fabric_of_gpus_for_ranks_without_is_said() -> None:
    note = choose_model(local_placement(2, "here"), "gloo", "hgx-h100", None).note
    assert note is not None
    assert "hgx-h100 describes GPUs" in note


def test_simulated_gpus_and_real_ones_are_as_described() -> None:
    assert choose_model(local_placement(2, "here"), "gloo", "lab-2x4", None).note is None
    gpus = Placement(
        tuple(RankPlacement(r, "h", r, gpu_name="NVIDIA H100 80GB HBM3") for r in range(2))
    )
    assert choose_model(gpus, "nccl", "hgx-h100", None).note is None


def test_a_point_is_predicted_by_its_own_timing_and_the_systems_calibration() -> None:
    """Eager calls are no faster than the host issues them; all have the calibration's interval. A verdict has
    what was calibrated: this one is of direct calls.
    """
    model = choose_model(GPUS, "nccl", "hgx-h100", calibration(), library_version="2.27.5+cuda12")
    assert model.library_version == "2.27.5"
    points = {
        timing: make_point("all_reduce", 1024, dtype("float32"), 8, timing=timing)
        for timing in ISSUE_OF_TIMING
    }
    found = predict_points(list(points.values()), model)
    assert found[points["eager"]].time_us == LAUNCH_US["eager"]
    assert found[points["direct"]].time_us == found[points["graph"]].time_us < 30.0
    for timing, point in points.items():
        row = make_row(
            point, replace(MEASURED, time_us_loop=found[point].time_us), found[point],
            backend="nccl", attempt=1, time_utc="2026-11-30T12:00:00Z",
        )  # fmt: skip
        assert row.predicted_low_us and row.predicted_high_us and row.predicted_coverage, timing
        known = timing == "direct"
        assert judge_row(row).verdict == (Verdict.PASS if known else Verdict.NO_VERDICT)
        slow = judge_row(replace(row, time_us_loop=2 * row.predicted_high_us))
        assert slow.verdict == (Verdict.SLOW if known else Verdict.NO_VERDICT)
        assert known or f"timing {timing}: calibrated with library" in slow.reason


@pytest.mark.parametrize(
    ("collective", "size_bytes", "said"),
    [
        ("all_reduce", 8, "a size outside 1 KiB"),
        ("all_reduce", 1 << 30, "a size outside 1 KiB"),
        ("broadcast", 1024, "broadcast was not calibrated"),
        ("all_reduce", 1024, None),
        ("all_reduce", 1 << 28, None),
    ],
)
def test_a_point_outside_the_calibration_has_a_prediction_and_no_verdict(
    collective: str, size_bytes: int, said: str | None
) -> None:
    model = choose_model(GPUS, "nccl", "hgx-h100", calibration(), library_version="2.27.5")
    point = make_point(collective, size_bytes, dtype("float32"), 8, timing="direct")
    predicted = predict_points([point], model)[point]
    row = make_row(
        point, replace(MEASURED, time_us_loop=5 * predicted.time_us), predicted,
        backend="nccl", attempt=1, time_utc="2026-11-30T12:00:00Z",
    )  # fmt: skip
    assert row.predicted_low_us and row.predicted_high_us
    judged = judge_row(row)
    if said is None:
        assert judged.verdict == Verdict.SLOW
    else:
        assert (judged.verdict, judged.why) == (Verdict.NO_VERDICT, Why.DOUBTED)
        assert said in judged.reason


def test_ranks_on_other_gpus_than_the_fabrics_have_no_verdict() -> None:
    h200 = Placement(tuple(replace(r, gpu_name="NVIDIA H200") for r in GPUS.ranks))
    model = choose_model(h200, "nccl", "hgx-h100", calibration(), library_version="2.27.5")
    point = make_point("all_reduce", 1024, dtype("float32"), 8, timing="graph")
    doubt = predict_points([point], model)[point].doubt
    assert doubt is not None and "runs on NVIDIA H200" in doubt


def test_the_reference_in_the_run_names_the_calibration(tmp_path: Path) -> None:
    choose_model(GPUS, "nccl", "hgx-h100", calibration()).write(tmp_path)
    reference = read_fabric(tmp_path)
    assert reference is not None and reference.calibration == calibration().source


def test_a_sweep_reads_the_calibration_that_it_was_given(tmp_path: Path) -> None:
    """What rank 0 does before the first measurement: intervals, and what they rest on, are in the run."""
    file = tmp_path / "cal.yaml"
    file.write_text(to_yaml(calibration()), encoding="utf-8")
    config = SweepConfig(
        collectives=("all_reduce",), sizes_bytes=(8, 1 << 20), dtypes=("float32",), ops=("sum",),
        root=0, in_place=(False,), iterations=20, warmup=5, check=True, backend="nccl",
        deadline_s=60.0, fabric="hgx-h100", chosen=(), calibration=str(file),
    )  # fmt: skip
    run = create_run("sweep", root=tmp_path / "runs")
    start = SweepStart(config, 8, lambda: run, as_json=False, strict_table=False)
    job = job_of(start, run.path)
    opened = _open(
        job, make_plan(config, 8, unsupported_by("nccl", 8)), Whereabouts(GPUS, (0,) * 8), None
    )
    assert all(p.low_us and p.high_us and p.coverage for p in opened.predicted.values())
    assert len(opened.predicted) == 2
    reference = read_fabric(run.path)
    assert reference is not None and str(file) in (reference.calibration or "")


@pytest.mark.parametrize(("backend", "text"), [("gloo", "gloo is measured"), ("nccl", "no such")])
def test_a_calibration_that_is_no_good_is_refused_before_ranks_start(
    tmp_path: Path, backend: str, text: str
) -> None:
    file = tmp_path / "cal.yaml"
    if backend == "gloo":
        file.write_text(to_yaml(calibration()), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        given_calibration(str(file), backend)
    assert "cal.yaml" in str(caught.value)
    assert text in str(caught.value).lower() or "cannot be read" in str(caught.value)


def test_a_calibration_of_nccl_is_refused_for_gloo() -> None:
    with pytest.raises(UsageError, match="gloo is measured; expected NCCL"):
        choose_model(local_placement(2, "here"), "gloo", None, calibration())


def test_every_timing_has_its_word_and_others_are_refused() -> None:
    assert set(ISSUE_OF_TIMING.values()) == set(get_args(Issue))
    with pytest.raises(UsageError, match=r"unknown timing 'eagre'.*did you mean 'eager'"):
        issue_of("eagre")
