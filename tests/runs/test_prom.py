"""Runs as a snapshot: the latest of each label set, how long it was slow, files that can be read."""

from __future__ import annotations

import itertools
import os
import random
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.shipped import shipped
from clusterlab.records.run_dir import RunDir, create_run
from clusterlab.report.data import load
from clusterlab.report.files.prometheus import Sample
from clusterlab.runs.connected.prom import latest_runs, read_series, snapshot, target_of, write_prom
from clusterlab.runs.connected.prom_run import RunSeries, Series, run_series
from tests.conftest import CLI, clean_environment
from tests.prometheus.some_runs import rail_rows, run_of, sweep_rows, training_run
from tests.records.fake_runs import fake_rows, points, renamed


def series_of(run: RunDir) -> RunSeries:
    return run_series(load(run))


def values(samples: Sequence[Sample], name: str, **labels: str) -> list[float]:
    """Of the series of that name with those labels."""
    return [
        s.value
        for s in samples
        if s.name == name and all(s.labels.get(k) == v for k, v in labels.items())
    ]


def value(samples: Sequence[Sample], name: str, **labels: str) -> float:
    (only,) = values(samples, name, **labels)
    return only


POINT = {"collective": "all_reduce", "place": "out_of_place", "size_bytes": str(1 << 20)}


def test_a_point_says_what_its_row_says(tmp_path: Path) -> None:
    rows = sweep_rows()
    found = snapshot([series_of(run_of(tmp_path, rows))]).samples
    row = next(
        r
        for r in rows
        if r.collective == "all_reduce" and r.size_bytes == 1 << 20 and not r.in_place
    )
    assert row.predicted_busbw_GBps is not None
    assert row.predicted_time_us is not None
    assert row.predicted_high_us is not None
    assert value(found, "clusterlab_busbw_gbs", **POINT) == row.busbw_GBps
    assert value(found, "clusterlab_busbw_ratio", **POINT) == row.ratio
    low = value(found, "clusterlab_busbw_predicted_low_gbs", **POINT)
    assert low == pytest.approx(
        row.predicted_busbw_GBps * row.predicted_time_us / row.predicted_high_us
    )
    high = value(found, "clusterlab_busbw_predicted_high_gbs", **POINT)
    assert low < row.predicted_busbw_GBps < high
    seconds = value(found, "clusterlab_collective_time_seconds", **POINT)
    assert seconds == pytest.approx(row.time_us_loop / 1e6)


def test_no_two_series_are_one(tmp_path: Path) -> None:
    """Two files with the same series make node exporter refuse both; so would one."""
    rows = [*sweep_rows(), *rail_rows()]
    long = "x" * 200
    rows += [renamed(row, dtype=long + end) for row in sweep_rows() for end in "ab"]
    runs = [run_of(tmp_path, rows, fabric=fabric) for fabric in ("a", "b/a.yaml", " a\n")]
    runs.append(training_run(tmp_path))
    found = snapshot(map(series_of, runs)).samples
    keys = [(s.name, *sorted(s.labels.items())) for s in found]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_run_that_ended_last_counts_in_whatever_order(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    made = [
        series_of(run_of(tmp_path, sweep_rows(seed=n), ago=timedelta(hours=9 - n)))
        for n in range(3)
    ]
    found = snapshot(made[i] for i in order)
    alone = snapshot(made[2:])
    name = "clusterlab_busbw_gbs"
    assert values(found.samples, name) == values(alone.samples, name)
    (info,) = [s for s in found.samples if s.name == "clusterlab_run_info"]
    assert info.labels["run_id"] == made[2].run_id


def test_of_runs_that_measured_different_things_all_stay(tmp_path: Path) -> None:
    one = series_of(run_of(tmp_path, fake_rows(points(["broadcast"])), ago=timedelta(days=2)))
    other = series_of(run_of(tmp_path, fake_rows(points(["all_gather"]))))
    found = snapshot([one, other]).samples
    names = {s.labels["collective"] for s in found if s.name == "clusterlab_busbw_gbs"}
    assert names == {"broadcast", "all_gather"}
    old = value(found, "clusterlab_collective_measured_timestamp_seconds", collective="broadcast")
    new = value(found, "clusterlab_collective_measured_timestamp_seconds", collective="all_gather")
    assert new - old == pytest.approx(2 * 86400, abs=60)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("pass", 0), ("slow", 1), ("slow slow slow", 3), ("slow slow pass", 0), ("pass slow", 1),
        ("slow no_verdict slow", 2), ("slow invalid", 1), ("slow fast_unexpected slow", 1),
    ],
)  # fmt: skip
def test_slow_runs_in_a_row(tmp_path: Path, verdicts: str, expected: int) -> None:
    base = series_of(run_of(tmp_path, sweep_rows()))
    runs = [
        replace(
            base,
            ended=float(n),
            points=tuple(replace(p, verdict=Verdict(word)) for p in base.points),
        )
        for n, word in enumerate(verdicts.split())
    ]
    found = snapshot(runs).samples
    assert set(values(found, "clusterlab_point_slow_runs")) == {float(expected)}


def test_groups_are_one_series_the_worst(tmp_path: Path) -> None:
    rows = rail_rows()
    slow = [
        renamed(r, busbw_GBps=0.5, ratio=0.1, wrong=2) if r.ranks == (1, 3) else r for r in rows
    ]
    run = run_of(tmp_path, slow, configuration={"pattern": "nodes:2_one_by_one"})
    found = snapshot([series_of(run)]).samples
    of = {"size_bytes": str(1 << 20), "place": "in_place", "group_kind": "nodes_one_by_one"}
    assert value(found, "clusterlab_busbw_gbs", **of) == 0.5
    assert value(found, "clusterlab_point_rows", **of) == 2
    assert value(found, "clusterlab_point_wrong_elements", **of) == 2
    assert value(found, "clusterlab_point_busbw_median_gbs", **of) > 0.5


def test_a_state_is_a_series_each_and_one_holds(tmp_path: Path) -> None:
    found = snapshot([series_of(run_of(tmp_path, sweep_rows(wrong=3), exit_code=1))]).samples
    for name in ("clusterlab_run_verdict", "clusterlab_collective_verdict"):
        states = {s.labels["verdict"]: s.value for s in found if s.name == name}
        assert states == {v.value: float(v == Verdict.INVALID) for v in Verdict}


def test_success_is_the_last_that_succeeded(tmp_path: Path) -> None:
    good = series_of(run_of(tmp_path, sweep_rows(), ago=timedelta(hours=5)))
    bad = series_of(run_of(tmp_path, sweep_rows(wrong=3), exit_code=0))
    killed = series_of(run_of(tmp_path, sweep_rows(), exit_code=None))
    found = snapshot([good, bad, killed]).samples
    assert value(found, "clusterlab_run_success_timestamp_seconds") == good.ended
    assert not values(snapshot([bad]).samples, "clusterlab_run_success_timestamp_seconds")
    assert not values(snapshot([killed]).samples, "clusterlab_run_exit_code")


def test_data_that_nobody_checked_is_not_right(tmp_path: Path) -> None:
    found = snapshot([series_of(run_of(tmp_path, sweep_rows(wrong=None)))]).samples
    assert not values(found, "clusterlab_run_wrong_elements")
    assert not values(found, "clusterlab_point_wrong_elements")


def test_a_training_says_its_warm_steps(tmp_path: Path) -> None:
    found = snapshot([series_of(training_run(tmp_path))]).samples
    assert value(found, "clusterlab_train_step_seconds") == pytest.approx(1e-3)
    assert value(found, "clusterlab_train_step_predicted_seconds") == pytest.approx(9e-4)
    assert value(found, "clusterlab_train_exposed_seconds", axis="dp") == pytest.approx(2e-4)
    assert value(found, "clusterlab_train_exposed_ratio") == pytest.approx(0.25)
    parts = values(found, "clusterlab_train_step_part_seconds")
    exposed = values(found, "clusterlab_train_exposed_seconds")
    assert sum(parts) + sum(exposed) == pytest.approx(1e-3)


def point(size: int, verdict: Verdict, wrong: int) -> Series:
    labels = {"cluster": "default", "size_bytes": str(size)}
    return Series(labels, (Sample("clusterlab_busbw_gbs", labels, 1.0),), verdict, wrong, size)


@pytest.mark.parametrize("seed", range(5))
def test_beyond_the_limit_what_is_wrong_or_slow_and_the_largest_stay(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    base = series_of(run_of(tmp_path, sweep_rows()))
    sizes = range(1, 1001)
    bad = set(rng.sample(sizes, 12))
    points = [
        point(s, Verdict.SLOW if s in bad and s % 2 else Verdict.PASS, int(s in bad and not s % 2))
        for s in sizes
    ]
    found = snapshot([replace(base, points=tuple(points))], most_points=100)
    kept = {int(s.labels["size_bytes"]) for s in found.samples if s.name == "clusterlab_busbw_gbs"}
    assert len(kept) == found.points == 100
    assert found.left_out == 900
    assert bad | {1000} <= kept
    others = sorted(kept - bad)
    assert max(b - a for a, b in itertools.pairwise(others)) <= 32, "thinned evenly"
    assert 900.0 in values(found.samples, "clusterlab_export_left_out_points")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_is_replaced_at_once_and_readable_by_all(tmp_path: Path, umask: int) -> None:
    target = tmp_path / "clusterlab.prom"
    target.write_text("old")
    reader = target.open()
    before = os.umask(umask)
    try:
        write_prom(target, b"new")
    finally:
        os.umask(before)
    assert reader.read() == "old", "renamed, not written over"
    reader.close()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


def test_where_it_goes(tmp_path: Path) -> None:
    assert target_of(tmp_path, openmetrics=False) == tmp_path / "clusterlab.prom"
    assert target_of(tmp_path, openmetrics=True).suffix != ".prom"
    for name, openmetrics in (
        ("a.txt", False),
        ("a", False),
        ("a.prom", True),
        ("no/a.prom", False),
    ):
        with pytest.raises(UsageError):
            target_of(tmp_path / name, openmetrics=openmetrics)


def test_the_youngest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    with pytest.raises(UsageError, match="holds no run"):
        latest_runs(3)
    made = [run_of(tmp_path, ago=timedelta(hours=n)).path for n in range(5)]
    (tmp_path / ".index").mkdir()
    (tmp_path / "zzz-no-run").mkdir()
    assert latest_runs(2) == [made[1], made[0]]


def test_a_run_counts_once_and_only_when_it_was_started(tmp_path: Path) -> None:
    run = run_of(tmp_path, sweep_rows(slow=3.0))
    made = create_run("waiting", root=tmp_path)
    read, refused = read_series([run.path, run.path / ".", made.path])
    assert not refused
    assert [one.run_id for one in read] == [run.info.run_id]
    assert set(values(snapshot(read).samples, "clusterlab_point_slow_runs")) == {1.0}


def test_one_damaged_run_does_not_hide_the_others(tmp_path: Path) -> None:
    good, bad = run_of(tmp_path, sweep_rows()), run_of(tmp_path, sweep_rows())
    (bad.path / "run.json").write_text("{")
    read, refused = read_series([good.path, bad.path, tmp_path / "none"])
    assert [one.run_id for one in read] == [good.info.run_id]
    assert len(refused) == 2
    target = tmp_path / "clusterlab.prom"
    done = subprocess.run(
        [*CLI, "export", "prom", str(good.path), str(bad.path), "-o", str(target)],
        capture_output=True, text=True, check=False, env=clean_environment(), timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "run.json" in done.stderr
    assert good.info.run_id in target.read_text()


@pytest.mark.parametrize("works", [True, False])
def test_the_epilog_never_fails_a_job(tmp_path: Path, works: bool) -> None:
    root = tmp_path / "runs"
    run_of(root, sweep_rows())
    command = tmp_path / "clusterlab"
    command.write_text("#!/bin/sh\nexec " + " ".join(CLI) + ' "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", str(shipped("slurm") / "epilog.sh")],
        env=clean_environment(
            CLUSTERLAB=str(command), CLUSTERLAB_RUNS=str(root) if works else str(tmp_path / "none"),
            TEXTFILES=str(tmp_path), SLURM_CLUSTER_NAME='al"pha',
        ),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    written = tmp_path / "clusterlab.prom"
    assert written.exists() == works
    assert ("ended with 2" in done.stderr) != works
    if works:
        assert 'cluster="al\\"pha"' in written.read_text()
