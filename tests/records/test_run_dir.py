"""The run directory: made before ranks start, described by run.json, continued by later attempts."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import SCHEMA_VERSION
from clusterlab.records import files
from clusterlab.records.run_dir import (
    create_run,
    end_attempt,
    note_versions,
    open_run,
    runs_root,
    start_attempt,
)
from tests.records.fake_runs import START, fake_rows, points


def test_a_new_run_has_its_name_time_and_folders(tmp_path: Path) -> None:
    run = create_run(
        "all reduce / sweep", root=tmp_path, now=START, command=["clusterlab", "bench"]
    )
    assert re.fullmatch(r"20261129T120000Z-all-reduce-sweep-[0-9a-f]{6}", run.path.name)
    assert {p.name for p in run.path.iterdir()} == {"run.json", "samples", "logs"}
    assert run.attempt == 0
    data = json.loads((run.path / "run.json").read_text())
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["name"] == "all reduce / sweep"
    assert data["created_by"]["command"] == ["clusterlab", "bench"]


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "a" * 300, "名前", "-x", "\0\n"])
def test_no_name_leads_out_of_the_runs_folder(tmp_path: Path, name: str) -> None:
    run = create_run(name, root=tmp_path)
    assert run.path.parent == tmp_path.resolve()
    assert open_run(run.path).info.name == name


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    configuration = {"sizes": (8, 16), "root": Path("/x"), "nested": {"ops": ["sum"]}}
    run = create_run("x", root=tmp_path, configuration=configuration, planned_points=12)
    assert open_run(run.path) == run
    assert run.info.configuration == {"sizes": [8, 16], "root": "/x", "nested": {"ops": ["sum"]}}


def test_every_attempt_is_appended_with_its_end(tmp_path: Path) -> None:
    run = create_run("x", root=tmp_path)
    first = start_attempt(run, command=["a"], now=START)
    assert (first.attempt, open_run(run.path).attempt) == (1, 1)
    second = start_attempt(run, command=["b"])  # the first was killed: it never ended
    second = end_attempt(second, 4, now=datetime(2026, 11, 29, 13, tzinfo=UTC))
    one, two = open_run(run.path).info.attempts
    assert (one.number, one.ended_utc, one.exit_code) == (1, None, None)
    assert (two.number, two.ended_utc, two.exit_code) == (2, "2026-11-29T13:00:00Z", 4)
    assert (one.context.command, two.context.command) == (("a",), ("b",))


def test_rows_of_a_later_attempt_follow_the_earlier_ones(tmp_path: Path) -> None:
    rows = fake_rows(points(["broadcast"]))
    run = start_attempt(create_run("x", root=tmp_path))
    with run.writer() as writer:
        writer.append(rows[0])
    again = start_attempt(open_run(run.path))
    with again.writer() as writer:
        writer.append(rows[1])
    assert again.records().rows == (rows[0], rows[1])


def test_versions_only_a_rank_knows_are_added_to_its_attempt(tmp_path: Path) -> None:
    run = start_attempt(create_run("x", root=tmp_path))
    run = note_versions(run, {"nccl": "2.28.9"})
    attempt = open_run(run.path).info.attempts[0]
    assert attempt.context.versions["nccl"] == "2.28.9"
    assert "python" in attempt.context.versions


def test_the_first_attempt_may_bring_the_configuration_and_no_later_one_another(
    tmp_path: Path,
) -> None:
    run = create_run("x", root=tmp_path)
    run = start_attempt(run, configuration={"sizes": (8, 16)}, planned_points=4)
    assert run.info.planned_points == 4
    run = start_attempt(run, configuration={"sizes": [8, 16]})
    assert run.attempt == 2
    with pytest.raises(UsageError, match=r"another sweep \(sizes: \[8, 16\] there, \[8\] now\)"):
        start_attempt(run, configuration={"sizes": [8]})
    assert open_run(run.path).attempt == 2


def test_a_run_is_found_by_its_name_under_the_runs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    run = create_run("x")
    assert open_run(run.path.name).path == run.path
    assert runs_root({}) == Path("runs")


def test_what_is_no_run_directory_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such run directory"):
        open_run(tmp_path / "none")
    with pytest.raises(UsageError, match=r"holds no run\.json"):
        open_run(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        open_run(tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "written by a newer clusterlab.*upgrade"),
        ({"atempts": []}, "unknown key 'atempts'.*did you mean 'attempts'"),
        ({"attempts": {}}, "attempts: {}; expected a list"),
        ({"attempts": [{"number": 1}]}, r"attempts\[0\]: lacks"),
        ({"name": 5}, "name: 5; expected a string"),
        ({"created_by": {"host": "x"}}, "created_by: lacks"),
    ],
)
def test_a_damaged_or_newer_description_names_the_field(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    run = create_run("x", root=tmp_path)
    file = run.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(UsageError, match=message) as caught:
        open_run(run.path)
    assert "run.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema_version": 1}', "\xff"])
def test_a_broken_run_json_is_a_usage_error(tmp_path: Path, text: str) -> None:
    run = create_run("x", root=tmp_path)
    (run.path / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"run\.json"):
        open_run(run.path)


def test_a_runs_folder_that_cannot_be_made_says_how_to_fix_it(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(UsageError, match=r"set \$CLUSTERLAB_RUNS"):
        create_run("x", root=tmp_path / "runs")


def test_a_crash_while_replacing_leaves_the_old_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_attempt(create_run("x", root=tmp_path))

    def power_cut(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "fsync", power_cut)
    with pytest.raises(KeyboardInterrupt):
        end_attempt(run, 0)
    assert open_run(run.path) == run


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        (["/opt/venv/bin/clusterlab", "bench"], ("clusterlab", "bench")),
        (["/site-packages/clusterlab/__main__.py", "bench"], ("clusterlab", "bench")),
        (["/home/me/clusterlab/sweep.py", "-x"], ("/home/me/clusterlab/sweep.py", "-x")),
    ],
)
def test_a_command_is_kept_as_one_types_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], kept: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.argv", argv)
    assert create_run("sweep", root=tmp_path).info.created_by.command == kept
