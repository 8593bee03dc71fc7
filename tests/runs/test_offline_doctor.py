"""``clusterlab doctor`` on what was saved or logged."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from clusterlab.cli.main import main


def test_a_log_comes_from_stdin_whatever_its_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = b"\xff\xfe\n[rank1]: CUDA error: invalid device ordinal\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert main(["doctor", "--log", "-"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "fatal CVD_LOCAL_RANK_MISMATCH (rank 1)"


def test_a_closed_stdin_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main(["doctor", "--log", "-"]) == 2
    assert "stdin is closed" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["hello world\n", "srun: error: [\nn0: task 0\n", "a: b\n"])
def test_an_error_log_taken_for_a_record_is_told_about_the_option(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "slurm-7.out"
    log.write_text(text)
    assert main(["doctor", str(log)]) == 2
    assert f"--log {log}" in capsys.readouterr().err
