from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.records.run_dir import create_run, end_attempt, start_attempt


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
