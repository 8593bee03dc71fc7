"""A look at a run whose files are damaged ends at once: with what can be shown, or with one error."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.records.lines import OVERLAP, SOAK, STEPS
from clusterlab.records.run_dir import RunDir
from clusterlab.runs.sweeping.plan import resolve_config
from tests.records.fake_runs import fake_rows, make_run, points

FILES = ("run.json", "records.jsonl", "placement.json")


@pytest.fixture(autouse=True)
def _no_wait() -> Iterator[None]:
    def late(_signal: int, _frame: object) -> None:
        raise TimeoutError("still looking")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _run(root: Path) -> RunDir:
    return make_run(root, fake_rows(points(["all_reduce"])))


@pytest.mark.parametrize("name", [*FILES, STEPS, SOAK, OVERLAP])
@pytest.mark.parametrize("what", ["fifo", "endless"])
def test_no_file_is_waited_for(
    tmp_path: Path, name: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _run(tmp_path).path / name
    file.unlink(missing_ok=True)
    if what == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")
    assert main(["watch", str(file.parent), "--once"]) == 2
    assert f"{name}: no regular file" in capsys.readouterr().err


def test_samples_that_may_not_be_looked_into_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path)
    plain = Path.stat

    def refused(path: Path, **options: Any) -> os.stat_result:
        if path.parent.name == "samples":
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    assert main(["watch", str(run.path), "--once"]) == 0
    assert "all_reduce" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({"world_size": 2**62}, 100),
        ({"world_size": 2**62}, 2**62),
        ({"world_size": 2**31 - 1, "pattern": "pairs"}, 10**6),
        ({"world_size": -5}, 100),
        ({"world_size": 2**20, "pattern": "pairs_one_by_one", "iterations": "x"}, 100),
        ({"sizes_bytes": []}, 100),
        ({"in_place": 5}, 100),
        ({"root": 2**60}, 100),
    ],
)
def test_a_plan_that_cannot_be_is_not_made(
    tmp_path: Path, changes: dict[str, Any], planned: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _run(tmp_path)
    config = resolve_config(
        collective_text="all_reduce", begin="8", end="1K", factor=2, step=None, dtype_text="float",
        op_text="sum", root=0, place="out", iterations=5, warmup=1, check=True, backend="gloo",
        deadline_s=60.0, fabric=None,
    )  # fmt: skip
    file = run.path / "run.json"
    data = json.loads(file.read_text())
    kept = json.loads(json.dumps(config.to_json()))
    data |= {"configuration": {**kept, "world_size": 4, **changes}, "planned_points": planned}
    file.write_text(json.dumps(data))
    assert main(["watch", str(run.path), "--once"]) in (0, 2)
    assert "points" in capsys.readouterr().out
