"""``clusterlab doctor FILE_OR_DIR`` and ``--log``: output, JSON and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.binding.records import save_bundle
from clusterlab.cli.main import main
from tests.binding.diagnose.jobs import job, torch_env


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["doctor", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_healthy_bundle_is_said_to_be_fine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_bundle(job(torch_env), tmp_path)
    code, out, _ = run(capsys, str(tmp_path))
    assert code == 0
    assert "# no findings" in out and "0000:21:00.0" in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_a_broken_bundle_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_bundle(job(torch_env, selected_device=1), tmp_path)
    code, out, _ = run(capsys, str(tmp_path), "--json")
    report = json.loads(out)
    assert code == 1
    assert report["ranks"] == 4 and report["missing_ranks"] == []
    first = report["findings"][0]
    assert list(first) == ["code", "severity", "ranks", "evidence", "fix", "caused_by"]
    assert first["code"] == "GPU_SHARED_BY_RANKS" and first["ranks"] == [0, 1, 2, 3]


def test_a_log_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "out.log"
    log.write_text("[rank1]: CUDA error: invalid device ordinal\n")
    code, out, _ = run(capsys, "--log", str(log), "--json")
    report = json.loads(out)
    assert code == 1
    assert [(f["code"], f["ranks"]) for f in report["findings"]] == [
        ("CVD_LOCAL_RANK_MISMATCH", [1])
    ]
    log.write_text("all is well\n")
    assert run(capsys, "--log", str(log))[0] == 0


@pytest.mark.parametrize(
    "words", [["no-such-file"], ["--log", "no-such-file"], ["a", "--log", "b"]]
)
def test_what_is_not_there_is_one_line_and_exit_code_two(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, *words)
    assert code == 2
    assert err.startswith("clusterlab: ") and err.count("\n") == 1
