"""``clusterlab report --nccl-tests-json``: nccl-tests' own file of a run, any time after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.records.fake_runs import fake_rows, make_run, points


def test_the_file_is_written_and_import_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_gather"])))
    target = tmp_path / "out.json"
    assert main(["report", str(run.path), "--no-html", "--nccl-tests-json", str(target)]) == 0
    assert str(target) in capsys.readouterr().err
    assert main(["import", str(target), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert "all_gather" in json.dumps(rows)


@pytest.mark.parametrize("place", ["", "no/such/folder/out.json"])
def test_a_place_for_no_file_is_a_usage_error(tmp_path: Path, place: str) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_gather"])))
    assert main(["report", str(run.path), "--nccl-tests-json", str(tmp_path / place)]) == 2


def test_a_run_that_measured_nothing_is_a_usage_error(tmp_path: Path) -> None:
    run = make_run(tmp_path, [])
    assert main(["report", str(run.path), "--nccl-tests-json", str(tmp_path / "o.json")]) == 2
