"""A run directory as nccl-tests' JSON: names of the files, single times of all ranks, and how it ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.records.run_dir import RunDir
from clusterlab.records.target import check_target
from clusterlab.runs.connected import nccl_tests_files
from clusterlab.runs.connected.nccl_tests_files import write_tests_json
from clusterlab.runs.finish import end_run
from clusterlab.runs.foreign import read_measured
from tests.records.fake_runs import fake_rows, make_run, points, renamed


def with_samples(run: RunDir, ranks: int, count: int = 3) -> None:
    for rank in range(ranks):
        with run.samples_writer(rank) as samples:
            for row in run.records().rows:
                samples.append(row.point, [float(rank + i) for i in range(count)])


def test_one_collective_is_the_file_itself_and_import_reads_it(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    run = make_run(tmp_path, rows)
    with_samples(run, 4)
    target = tmp_path / "out.json"
    assert write_tests_json(run, target) == (target,)
    found = read_measured([target])
    assert not found.refused
    (file,) = found.files
    assert file.kind == "nccl_tests_json"
    assert [row.time_us for row in file.rows] == [row.time_us_loop for row in rows]
    per = json.loads(target.read_text())["results"][0]["in_place_per_iter"]
    assert per["times_us"] == [3.0, 4.0, 5.0]
    assert per["per_process_max_times_us"][1] == [1.0, 2.0, 3.0]


def test_several_collectives_and_ways_have_files_with_their_names(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce", "broadcast"]))
    graph = [renamed(row, timing="graph") for row in rows]
    run = make_run(tmp_path, [*rows, *graph])
    names = {path.name for path in write_tests_json(run, tmp_path / "out.json")}
    assert names == {
        f"out-{c}-{t}.json" for c in ("all_reduce", "broadcast") for t in ("eager", "graph")
    }
    assert all((tmp_path / name).is_file() for name in names)


@pytest.mark.parametrize("exit_code", [None, 4, 143])
def test_a_run_that_ended_early_says_so(tmp_path: Path, exit_code: int | None) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce"])), exit_code=exit_code)
    (path,) = write_tests_json(run, tmp_path / "out.json")
    data = json.loads(path.read_text())
    assert "end_time" not in data and data["errors"]
    assert len(data["results"]) == 8


def test_points_that_are_missing_are_no_end(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    run = make_run(tmp_path, rows[:5], planned_points=len(rows))
    (path,) = write_tests_json(run, tmp_path / "out.json")
    assert "end_time" not in json.loads(path.read_text())


def test_a_run_without_rows_writes_nothing(tmp_path: Path) -> None:
    assert write_tests_json(make_run(tmp_path, []), tmp_path / "out.json") == ()
    assert not (tmp_path / "out.json").exists()


def test_too_many_times_leave_the_ranks_own_out_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce"])))
    with_samples(run, 4)
    monkeypatch.setattr(nccl_tests_files, "MOST_TIMES", 16 * 3)
    (path,) = write_tests_json(run, tmp_path / "out.json")
    per = json.loads(path.read_text())["results"][0]["in_place_per_iter"]
    assert per["times_us"] == [3.0, 4.0, 5.0] and "per_process_max_times_us" not in per
    monkeypatch.setattr(nccl_tests_files, "MOST_TIMES", 16 * 3 - 1)
    (path,) = write_tests_json(run, tmp_path / "out.json")
    assert json.loads(path.read_text())["results"][0]["in_place_per_iter"]["times_us"] == []


@pytest.mark.parametrize("message", [None, "rank 2 died"])
def test_the_end_of_a_run_writes_it_also_when_it_was_interrupted(
    tmp_path: Path, message: str | None
) -> None:
    rows = fake_rows(points(["all_reduce"]))
    run = make_run(tmp_path, rows, planned_points=len(rows), exit_code=None)
    target = tmp_path / "out.json"
    end_run(run.path, 0 if message is None else 4, message, tests_json=target)
    data = json.loads(target.read_text())
    assert ("end_time" in data) is (message is None)
    assert data["errors"] == ([] if message is None else [message])


@pytest.mark.parametrize("where", ["", "missing/out.json"])
def test_a_place_that_cannot_be_a_file_is_refused_before(tmp_path: Path, where: str) -> None:
    with pytest.raises(UsageError):
        check_target(tmp_path / where)
