"""``clusterlab report`` of several runs, and the files that it writes besides the page."""

from __future__ import annotations

import builtins
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.rows import Row
from clusterlab.records.run_dir import RunDir
from tests.records.fake_runs import fake_rows, make_run, points, renamed

GOOD = fake_rows(points(["all_gather"]))
WRONG = [renamed(GOOD[0], wrong=1, wrong_rank=0, wrong_index=2, wrong_got=float("nan")), *GOOD[1:]]


@pytest.fixture(name="two")
def two_runs(tmp_path: Path) -> list[RunDir]:
    return [
        make_run(tmp_path / "runs", GOOD, name="one"),
        make_run(tmp_path / "runs", WRONG, name="two"),
    ]


def report(two: list[RunDir], *words: str) -> int:
    return main(["report", *(str(run.path) for run in two), *words])


def test_each_run_has_its_page_and_summary_and_the_worst_decides(
    two: list[RunDir], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(two) == 1
    for run in two:
        assert run.report_path.is_file()
        assert (run.path / "summary.md").read_text(encoding="utf-8").startswith("### ")
    assert capsys.readouterr().out.count("report: ") == 2
    assert report(two[:1]) == 0
    assert report(two, "-o", str(tmp_path / "new" / "pages")) == 1
    names = {path.name for path in (tmp_path / "new" / "pages").iterdir()}
    assert names == {f"{run.path.name}.{kind}" for run in two for kind in ("html", "md")}


def test_data_of_several_runs_is_told_apart(
    two: list[RunDir], capsys: pytest.CaptureFixture[str]
) -> None:
    report(two, "--csv")
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["run_id"] for line in table] == [r.info.run_id for r in two for _ in GOOD]
    report(two[:1], "--csv")
    assert capsys.readouterr().out.startswith("collective,")
    report(two, "--json")
    assert [one["verdict"] for one in json.loads(capsys.readouterr().out)] == ["pass", "invalid"]
    report(two[:1], "--json")
    assert json.loads(capsys.readouterr().out)["verdict"] == "pass"
    report(two, "--summary")
    assert capsys.readouterr().out.count("\n### ") == 1


def test_parquet_holds_every_field_with_its_type(two: list[RunDir], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    target = tmp_path / "rows.parquet"
    report(two, "--no-html", "--parquet", str(target))
    found = parquet.read_table(target)
    assert found.column_names == ["run_id", *Row.__dataclass_fields__]
    assert found.num_rows == 2 * len(GOOD)
    kinds = {field.name: str(field.type) for field in found.schema}
    assert kinds["busbw_GBps"] == kinds["predicted_low_us"] == "double"
    assert kinds["size_bytes"] == kinds["root"] == "int64"
    assert kinds["in_place"] == "bool"
    assert kinds["ranks"].startswith("list<")
    assert found["busbw_GBps"].to_pylist() == [row.busbw_GBps for row in (*GOOD, *WRONG)]
    assert found["root"].null_count == found.num_rows


def test_without_pyarrow_one_sentence_says_what_to_install(
    two: list[RunDir],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    known = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert report(two, "--no-html", "--parquet", str(tmp_path / "x")) == 2
    assert "pip install 'clusterlab[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--csv", "--json"),
        ("--summary", "--csv"),
        ("--nccl-tests-json", "x.json"),
        ("-o", "/proc/nowhere"),
        ("--parquet", "/proc/nowhere/x.parquet"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_one_sentence(
    two: list[RunDir], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(two, *words) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("clusterlab: ")
    assert len(said.splitlines()) == 1


def test_check_is_the_gravest_of_all(tmp_path: Path) -> None:
    unknown = make_run(tmp_path, fake_rows(points(["all_gather"]), predicted=False), name="unknown")
    good = make_run(tmp_path, GOOD, name="good")
    assert report([good, unknown], "--no-html", "--check") == 3
    assert report([good, unknown], "--no-html") == 0
    assert report([good], "--no-html", "--check") == 0
