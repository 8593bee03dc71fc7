"""`clusterlab compare`: every input it takes, its exit codes, its JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.records.run_dir import RunDir
from clusterlab.records.schema import jsonable, row_to_line
from tests.formats.measured.examples import SIZES, devices, json_file, table
from tests.records.fake_runs import make_run
from tests.verdict.test_reproduce import again
from tests.verdict.test_steady import steady_rows


def a_run(root: Path, rows: list[Row], **options: object) -> RunDir:
    return make_run(root, rows, **{"planned_points": len(rows), **options})  # type: ignore[arg-type]


def compare(*words: object) -> int:
    return main(["compare", *map(str, words)])


@pytest.mark.parametrize(
    ("by", "code", "word"), [(1.0, 0, "same"), (1.3, 1, "regression"), (0.7, 0, "improvement")]
)
def test_runs_by_directory_name_and_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    by: float,
    code: int,
    word: str,
) -> None:
    first, second = (
        a_run(tmp_path, rows) for rows in (steady_rows(32), again(steady_rows(32), by=by))
    )
    assert compare(first.path, second.path) == code
    assert capsys.readouterr().out.startswith(f"{word}: ")
    monkeypatch.setenv("CLUSTERLAB_RUNS", str(tmp_path))
    assert compare(first.path.name, second.records_path, "--json") == code
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == word and data["comparisons"][0]["points_in_common"] == 32


def test_several_runs_are_each_compared_with_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [a_run(tmp_path, again(steady_rows(32), by=by)).path for by in (1.0, 1.0, 1.3, 0.7)]
    assert compare(*sides, "--json") == 1
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "regression"
    assert [c["verdict"] for c in data["comparisons"]] == ["same", "regression", "improvement"]
    assert {c["first"] for c in data["comparisons"]} == {sides[0].name}


def test_rows_without_their_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for name, by in (("a", 1.0), ("b", 1.3)):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_bytes(b"".join(map(row_to_line, again(steady_rows(32), by=by))))
    assert compare(*files) == 1
    assert "all_reduce" in capsys.readouterr().out


def slower(text: str, by: float) -> str:
    """A -J file whose out-of-place times are multiplied."""
    data = json.loads(text)
    for result in data["results"]:
        half = result["out_of_place"]
        result["out_of_place"] = {
            **half,
            "time": half["time"] * by,
            "alg_bw": half["alg_bw"] / by,
            "bus_bw": half["bus_bw"] / by,
        }
    return json.dumps(data)


def test_nccl_tests_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text(devices(1, 8) + table("all_reduce", 8))
    (tmp_path / "a.json").write_text(json_file())
    assert compare(tmp_path / "a.log", tmp_path / "a.json", "--json") in {0, 1, 3}
    found = json.loads(capsys.readouterr().out)["comparisons"][0]
    assert found["points_in_common"] == 2 * len(SIZES) and found["alone"] == [0, 0]
    (tmp_path / "b.json").write_text(slower(json_file(), 2))
    assert compare(tmp_path / "a.json", tmp_path / "b.json", "--json") in {1, 3}
    found = json.loads(capsys.readouterr().out)["comparisons"][0]
    ratios = {p["in_place"]: p["ratio"] for p in found["points"]}
    assert ratios == {False: pytest.approx(2), True: pytest.approx(1)}


def csv_text(by: float = 1.0, system: str = "lab") -> str:
    lines = ["table_id,system,gpu,n_ranks,collective,dtype,in_place,size_bytes,time_us"]
    for i in range(12):
        size = 8 << (2 * i)
        lines.append(
            f"{system}-1,{system},H200,8,all_reduce,half,0,{size},{by * (10 + size / 1e5):.4f}"
        )
    return "\n".join(lines) + "\n"


def test_csv_and_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(csv_text())
    (tmp_path / "b.csv").write_text(csv_text(1.5))
    assert compare(tmp_path / "a.csv", tmp_path / "b.csv") == 1
    both = csv_text() + csv_text(1.5, "other").partition("\n")[2]
    (tmp_path / "both.csv").write_text(both)
    capsys.readouterr()
    assert compare(tmp_path / "both.csv", tmp_path / "a.csv") == 2
    assert "lab-1, other-1" in capsys.readouterr().err
    one, other = (f"{tmp_path / 'both.csv'}#{name}-1" for name in ("lab", "other"))
    assert compare(one, other, "--noise", "1%") == 1
    assert compare(one, f"{tmp_path / 'both.csv'}#other", "--noise", "1%") == 1
    assert compare(one, f"{tmp_path / 'both.csv'}#nowhere") == 2


@pytest.mark.parametrize(
    "damage",
    [
        "duplicate",
        "schemas",
        "missing",
        "same",
        "wrong_first",
    ],
)
def test_bad_runs_are_no_verdict_never_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    rows = steady_rows(32)
    bad, planned = [*rows], len(rows)
    if damage == "duplicate":
        bad.append(replace(rows[3], time_us_loop=7.0))
    if damage == "missing":
        bad.pop()
    if damage == "wrong_first":
        bad[0] = replace(rows[0], wrong=4)
    first = a_run(tmp_path, bad, planned_points=planned)
    if damage == "schemas":
        old = {"schema_version": 1, **jsonable(rows[0])}
        with first.records_path.open("ab") as file:
            file.write(json.dumps(old).encode() + b"\n")
    second = first if damage == "same" else a_run(tmp_path, again(rows))
    assert compare(first.path, second.path) == 3
    said = capsys.readouterr().out
    words = {
        "duplicate": "twice in one attempt",
        "schemas": f"schema versions 1 and {SCHEMA_VERSION}",
        "missing": "lacks 1 points of its plan",
        "same": "given twice",
        "wrong_first": "wrong data",
    }
    assert said.startswith("no_verdict: ") and words[damage] in said


def test_what_differs_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = a_run(tmp_path, steady_rows(32))
    second = a_run(tmp_path, again(steady_rows(32)), host="node-b")
    assert compare(first.path, second.path) in {0, 3}
    out = capsys.readouterr().out
    assert "placement: hosts" in out and "node-b" in out
    assert "backend" not in out.partition("collective")[0]
    assert "published tables" in out  # another machine's noise


@pytest.mark.parametrize(
    "words",
    [
        ["absent", "absent"],
        ["--noise", "much"],
        ["--noise", "0"],
        ["--allow-different", "everything"],
        [],
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    run = a_run(tmp_path, steady_rows(32)).path
    given = words if words[:1] == ["absent"] else [str(run), *([str(run)] if words else []), *words]
    assert compare(*given) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("clusterlab: ") and "Traceback" not in captured.err


@pytest.mark.parametrize("text", ["", "\0\1\2", "nothing measured\n", '{"a": 1}\n'])
def test_a_file_of_nothing_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "x").write_text(text)
    run = a_run(tmp_path, steady_rows(32)).path
    assert compare(run, tmp_path / "x") == 2
    assert str(tmp_path / "x") in capsys.readouterr().err
