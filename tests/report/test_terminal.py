"""A run in a terminal: at most 100 columns, readable when piped, hostile text inert."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path

import pytest

from clusterlab.core.findings import Finding, Severity
from clusterlab.records.documents import write_findings
from clusterlab.records.run_dir import RunDir, create_run, open_run, start_attempt
from clusterlab.report.console.terminal import print_run, run_data
from clusterlab.report.data import load
from tests.records.fake_runs import fake_row, fake_rows, make_run, points, renamed


def shown(run: RunDir) -> str:
    out = io.StringIO()
    print_run(load(open_run(run.path)), out)
    return out.getvalue()


def test_every_size_of_every_collective_is_there_within_a_hundred_columns(tmp_path: Path) -> None:
    rows = fake_rows(points(world_size=1024))
    text = shown(make_run(tmp_path, rows, world_size=1024))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    for size in ("64 KiB", "16 MiB"):
        assert sum(line.strip().startswith(f"{size} ") for line in text.splitlines()) == 7
    lines = text.splitlines()
    (broadcast,) = [i for i, line in enumerate(lines) if line.startswith("broadcast float32, 1024")]
    figures = lines[broadcast + 4].split()
    assert figures[:2] == ["1", "KiB"]
    assert figures[-1] in {"pass", "slow", "fast_unexpected"}


def test_the_summary_has_one_line_a_collective_with_its_errors(tmp_path: Path) -> None:
    run = make_run(tmp_path, fake_rows(points(["all_reduce", "reduce"])))
    (summary,) = load(run).run_verdict.summaries[:1]
    line = [x for x in shown(run).splitlines() if x.strip().startswith("all_reduce  ")][-1]
    assert re.findall(r"[\d.]+ %", line)[0] == f"{summary.median_error:.1%}".replace("%", " %")
    assert line.split()[-1] == "pass"


def test_the_first_lines_say_verdict_and_what_is_missing(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))[:5]
    run = make_run(tmp_path, rows, planned_points=16, exit_code=None)
    with run.records_path.open("ab") as file:
        file.write(b'{"schema_version":1,"collec')
    first = shown(run).splitlines()[1:6]
    assert first[0] == "no_verdict: 11 planned points were not measured"
    assert first[1] == "note: Attempt 1 has not ended: it is still running, or was killed."
    assert first[2] == "note: 5 of 16 planned points were measured."
    assert "half a line" in "".join(first[3:])


def test_a_run_without_rows_says_so(tmp_path: Path) -> None:
    run = create_run("x", root=tmp_path)
    assert "no_verdict: nothing was measured" in shown(run)
    assert "No attempt was started" in shown(run)


def test_wrong_data_and_findings_are_named(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows[0] = renamed(rows[0], wrong=3)
    run = make_run(tmp_path, rows, exit_code=1)
    write_findings(
        run.path,
        [Finding("WRONG_DATA", Severity.FATAL, ("3 wrong elements",), "halve the ranks", (1, 2))],
    )
    text = shown(run)
    assert "invalid: all_reduce: 1 of 16 points delivered wrong elements" in text
    assert "note: Attempt 1 ended with exit code 1." in text
    assert "fatal: WRONG_DATA ranks 1, 2" in text
    assert "  fix: halve the ranks" in text


def test_points_measured_again_count_once_and_it_is_said(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    run = make_run(tmp_path, rows)
    again = start_attempt(run)
    rng = random.Random(9)
    with again.writer() as writer:
        for row in rows[:4]:
            writer.append(fake_row(row.point, rng, attempt=2))
    data = load(open_run(run.path))
    assert len(data.rows) == 16
    assert [r.attempt for r in data.rows[:5]] == [2, 2, 2, 2, 1]
    assert any("4 points were measured again by a later attempt" in note for note in data.notes)


def test_hostile_text_neither_moves_the_cursor_nor_is_taken_for_markup(tmp_path: Path) -> None:
    evil = "\x1b[2Jgloo[bold red]\u202e"
    rows = [renamed(row, backend=evil) for row in fake_rows(points(["all_reduce"]))]
    text = shown(make_run(tmp_path, rows))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "gloo[bold red]" in text


def test_the_data_form_holds_what_was_shown(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    rows[1] = renamed(rows[1], wrong=1, wrong_got=float("nan"))
    run = make_run(tmp_path, rows)
    data = json.loads(json.dumps(run_data(load(run)), allow_nan=False))
    assert data["verdict"] == "invalid"
    assert data["run_id"] == run.path.name
    assert len(data["rows"]) == len(rows)
    assert data["rows"][1]["wrong_got"] == "NaN"
    assert data["rows"][0]["busbw_GBps"] == pytest.approx(rows[0].busbw_GBps)


def test_in_place_only_runs_and_padded_sizes_are_shown(tmp_path: Path) -> None:
    rows = [r for r in fake_rows(points(["all_gather"], [1000, 1002])) if r.in_place]
    assert rows[1].padded
    text = shown(make_run(tmp_path, rows))
    assert re.search(r"^ +\d\S* B\* ", text, re.MULTILINE)


def test_where_the_intervals_are_from_is_said(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    said = "Judged by 90% intervals: self-calibration of this host"
    run = make_run(tmp_path, rows)
    assert said in shown(run).splitlines() and load(run).sources == (said,)
    many = [renamed(row, provenance=f"source {i}") for i, row in enumerate(rows)]
    sources = load(make_run(tmp_path, many)).sources
    assert len(sources) == 4 and "more kinds" in sources[-1]
    bare = make_run(tmp_path, fake_rows(points(["all_reduce"]), predicted=False))
    assert load(bare).sources == ()
