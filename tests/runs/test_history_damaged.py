"""One damaged run is one line that says so, whatever its files make their readers do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.errors import StorageError, UsageError
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import ReportData, load
from clusterlab.runs.history import reading as history_read
from tests.records.fake_runs import fake_rows, make_run, points

COMMANDS = (["query"], ["trend"])


def _folder(root: Path) -> Path:
    """A good run, and one to damage, which it returns."""
    rows = fake_rows(points(["all_reduce"]))
    make_run(root, rows, name="good")
    return make_run(root, rows, name="bad").path


def _states(root: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What each of the commands ends with, and what the list says of the two runs."""
    for command in COMMANDS:
        assert main(["runs", *command, "--runs", str(root)]) in (0, 3), command
    capsys.readouterr()
    assert main(["runs", "list", "--runs", str(root), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    return {run["run"]: run["state"] for run in said}


def _json(name: str, *where: str | int, value: Any) -> Callable[[Path], None]:
    """Puts ``value`` where the keys lead to in one of the run's documents."""

    def damage(run: Path) -> None:
        data = json.loads((run / name).read_text())
        inner = data
        for key in where[:-1]:
            inner = inner[key]
        inner[where[-1]] = value
        (run / name).write_text(json.dumps(data))

    return damage


@pytest.mark.parametrize(
    "error",
    [
        *(UsageError("u"), StorageError("s"), OSError("o"), ValueError("v"), OverflowError("f")),
        *(TypeError("t"), KeyError("k"), AttributeError("a"), IndexError("i"), AssertionError("b")),
        *(RecursionError("r"), MemoryError("m"), ZeroDivisionError("z"), RuntimeError("e")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_of_one_run_ends_the_others(
    tmp_path: Path,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = _folder(tmp_path)

    def loaded(run: RunDir) -> ReportData:
        if run.path.name == bad.name:
            raise error
        return load(run)

    monkeypatch.setattr(history_read, "load", loaded)
    states = _states(tmp_path, capsys)
    assert states[bad.name] == "damaged"
    assert sorted(states.values()) == ["damaged", "ended"]


@pytest.mark.parametrize(
    "damage",
    [
        _json("placement.json", "ranks", 0, "gpu_name", value=5),
        _json("placement.json", "ranks", 1, "host", value=["n0"]),
        _json("run.json", "configuration", value={"measures": "overlap", "typed": None}),
        _json("run.json", "configuration", value={"measures": "overlap"}),
    ],
    ids=["gpu_name", "host", "typed-null", "typed-missing"],
)
def test_a_damaged_run_is_one_line(
    tmp_path: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = _folder(tmp_path)
    damage(bad)
    states = _states(tmp_path, capsys)
    assert states[bad.name] == "damaged"
    assert sorted(states.values()) == ["damaged", "ended"]
