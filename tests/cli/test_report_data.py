"""``report --csv``, ``--json``, ``--summary``: on stdout or as files; never lost, never empty in silence."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.core.stepping import StepLine
from clusterlab.records.lines import STEPS, LineWriter
from tests.cli.test_shown import NAMES
from tests.records.fake_runs import fake_rows, make_run, points, renamed

GOOD = fake_rows(points(["all_gather"], sizes=[1024]))
KINDS = {"--csv": ["csv"], "--json": ["json"], "--summary": ["md"], "": ["html", "md"]}


@pytest.fixture(name="trained")
def trained_run(tmp_path: Path) -> Path:
    run = make_run(tmp_path, [], name="train")
    with LineWriter(run.path / STEPS) as writer:
        for step in (0, 1):
            writer.append(
                StepLine(step, 1, "2026-11-29T21:54:00Z", 4.25, 10_000, 1, 1000, 2000, 3000, {"dp": 1500},
                         500, 800, 1200, 1 << 20, 3)
            )  # fmt: skip
    return run.path


@pytest.mark.parametrize("words", KINDS)
def test_a_folder_gets_a_file_of_each_run(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(tmp_path, GOOD, name=name) for name in ("one", "two")]
    out = tmp_path / "out"
    assert main(["report", *(str(r.path) for r in runs), *words.split(), "-o", str(out)]) == 0
    assert {p.name for p in out.iterdir()} == {
        f"{r.path.name}.{suffix}" for r in runs for suffix in KINDS[words]
    }
    assert all(p.stat().st_size > 100 for p in out.iterdir())
    if words:
        assert capsys.readouterr().out == ""
        alone = main(["report", str(runs[0].path), *words.split()])
        assert alone == 0
        kept = (out / f"{runs[0].path.name}.{KINDS[words][0]}").read_bytes().decode()
        assert capsys.readouterr().out.rstrip() == kept.rstrip()


@pytest.mark.parametrize("words", KINDS)
def test_runs_of_one_name_are_refused_and_nothing_is_lost(
    tmp_path: Path, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (make_run(tmp_path / folder, GOOD).path for folder in ("a", "b"))
    sides = [str(first), str(second.rename(second.with_name(first.name)))]
    out = tmp_path / "out"
    assert main(["report", *sides, *words.split(), "-o", str(out)]) == 2
    assert "--output" in capsys.readouterr().err and not out.exists()
    assert main(["report", sides[0], sides[0], *words.split(), "-o", str(out)]) == 0


def test_what_has_no_rows_gives_its_steps_or_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], trained: Path
) -> None:
    assert main(["report", str(trained), "--csv"]) == 0
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["step"] for line in table] == ["0", "1"]
    empty = make_run(tmp_path, [], name="empty")
    assert main(["report", str(empty.path), "--csv"]) == 3
    said = capsys.readouterr()
    assert said.out == "" and "no rows" in said.err
    sweep = make_run(tmp_path, GOOD)
    assert main(["report", str(sweep.path), str(trained), "--csv"]) == 2
    assert "--csv" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*NAMES, "=1+1", "＝1", "\t=1", "nul\0here"], ids=ascii)
def test_no_text_of_a_row_acts_in_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = make_run(tmp_path, [renamed(one, library_version=name, bottleneck=name) for one in GOOD])
    assert main(["report", str(run.path), "--csv"]) == 0
    out = capsys.readouterr().out
    assert not any(c in out for c in "\x1b\x07\x08\u202e\u009b\0\t")
    for line in csv.DictReader(io.StringIO(out)):
        assert not line["library_version"].startswith(("=", "＝", "\t"))
        assert line["collective"] == "all_gather"


@pytest.mark.parametrize(
    "words", [["report"], ["compare", "x"], ["bench"], ["runs", "query", "--since"]]
)
@pytest.mark.parametrize("name", [*NAMES, "m" * 1_000_000], ids=lambda name: ascii(name[:20]))
def test_what_was_typed_comes_back_inert(
    words: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, name]) == 2
    said = capsys.readouterr().err
    assert said and len(said) < 10_000
    assert not any(c in said for c in "\x1b\x07\x08\u202e\u009b")


def test_a_query_has_one_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, GOOD)
    assert main(["runs", "query", "--runs", str(tmp_path), "--json", "--csv"]) == 2
    assert "--json" in capsys.readouterr().err
    assert main(["runs", "query", "--runs", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(GOOD)
