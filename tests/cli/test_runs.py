from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.records.run_dir import create_run, end_attempt, start_attempt
from clusterlab.verdict.steady import quiet
from tests.records.fake_runs import fake_rows, make_run, points
from tests.verdict.test_reproduce import again
from tests.verdict.test_steady import steady_rows, with_width


def test_how_a_run_ended_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = create_run("x", root=tmp_path)
    assert main(["runs", "ended", str(run.path)]) == 4
    assert "no attempt was started" in capsys.readouterr().out
    run = start_attempt(run)
    assert main(["runs", "ended", str(run.path)]) == 4
    assert "attempt 1 did not end" in capsys.readouterr().out
    for code in (0, 1):
        end_attempt(run, code)
        assert main(["runs", "ended", str(run.path)]) == code
    assert main(["runs", "ended", str(tmp_path / "absent")]) == 2


def test_a_job_finds_its_directory_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))

    def create(job: str) -> str:
        assert main(["runs", "create", "--name", "sweep", "--job", job]) == 0
        return capsys.readouterr().out.strip()

    first = create("12")
    assert create("12") == first
    assert create("1") != first
    assert main(["runs", "create", "--name", "sweep", "--job", "../x"]) == 2


def test_recorded_predictions_are_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce", "broadcast"])))
    assert main(["runs", "score", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["predicted", "points", "MAPE", "median"]
    assert lines[1].startswith("all points") and any(x.startswith("broadcast") for x in lines)
    assert main(["runs", "score", str(run.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found[0]["points"] == 32 and 0 < found[0]["mape_pct"] < 30
    bare = make_run(tmp_path, fake_rows(points(["all_reduce"]), predicted=False))
    assert main(["runs", "score", str(bare.path)]) == 3
    assert "no point has a prediction" in capsys.readouterr().err


def test_predict_score_sends_a_run_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce"])))
    assert main(["predict", "score", str(run.path)]) == 2
    assert "clusterlab runs score RUN" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("slow", "shaken", "code", "word"),
    [
        (1.0, False, 0, "reproduced"),
        (1.3, False, 1, "different"),
        (1.3, True, 3, "noisy"),
        (1.0, True, 0, "reproduced"),
    ],
)
def test_two_runs_reproduce_differ_or_are_noisy(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    slow: float,
    shaken: bool,
    code: int,
    word: str,
) -> None:
    rows = steady_rows()
    other = again(rows, by=slow)
    if shaken:
        other = [replace(row, samples=200, outliers=60) for row in other]
    first, second = make_run(tmp_path, rows), make_run(tmp_path, other)
    assert main(["runs", "reproduce", str(first.path), str(second.path)]) == code
    out = capsys.readouterr().out
    assert out.startswith(word) and ("second run noisy" in out) is shaken
    assert ("allowed" in out) is (slow != 1.0)
    assert main(["runs", "reproduce", str(first.path), str(second.path), "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == word and found["points_in_common"] == 20


def test_each_noisy_run_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [replace(with_width(row, 0.5), outliers=60) for row in steady_rows()]
    assert len(quiet(rows).reasons) > 1
    first, second = make_run(tmp_path, rows), make_run(tmp_path, rows)
    assert main(["runs", "reproduce", str(first.path), str(second.path)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert "20 of 20 may differ by more than 10%" in lines[0]
    for name in ("first", "second"):
        assert sum(line.startswith(f"{name} run noisy: ") for line in lines) == 1


def test_two_runs_of_other_points_have_no_verdict_and_no_run_is_a_usage_error(
    tmp_path: Path,
) -> None:
    first = make_run(tmp_path, fake_rows(points(["all_reduce"])))
    second = make_run(tmp_path, fake_rows(points(["broadcast"])))
    assert main(["runs", "reproduce", str(first.path), str(second.path)]) == 3
    assert main(["runs", "reproduce", str(first.path), str(tmp_path / "none")]) == 2
