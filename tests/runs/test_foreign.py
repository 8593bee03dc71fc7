"""Several files of other tools' measurements: what each gives, and what one does to the others."""

from __future__ import annotations

import io
import itertools
import json
import sys
from pathlib import Path

import pytest

from clusterlab.formats.measured.file import Given
from clusterlab.runs.foreign import read_measured
from tests.formats.measured.examples import BANNER, SIZES, devices, inspector, json_file, table

GOOD = {
    "run.log": "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8),
    "out.json": json_file(),
    "two.log": "$ alltoall_perf\n" + BANNER + devices(2, 8) + table("all_to_all", 16),
}
BAD = {
    "empty.log": "",
    "words.log": "hello\n",
    "ended.log": BANNER + devices(1, 8),
    "cut.json": json_file()[:30],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (GOOD | BAD).items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("bad", [*BAD, "absent.log", "a_folder"])
@pytest.mark.parametrize("at", range(len(GOOD) + 1))
def test_a_bad_file_keeps_nobody_from_the_others(folder: Path, bad: str, at: int) -> None:
    (folder / "a_folder").mkdir()
    paths = [folder / name for name in GOOD]
    found = read_measured([*paths[:at], folder / bad, *paths[at:]])
    assert [file.source for file in found.files] == [str(path) for path in paths]
    assert [len(file.rows) for file in found.files] == [2 * len(SIZES)] * len(GOOD)
    (error,) = found.refused
    assert bad in str(error)


def test_what_is_given_may_fit_one_file_and_not_another(tmp_path: Path) -> None:
    for ranks in (8, 16):
        (tmp_path / f"{ranks}.log").write_text(table("all_reduce", ranks))
    found = read_measured(
        [tmp_path / "8.log", tmp_path / "16.log"], Given(n_nodes=2, gpus_per_node=8)
    )
    assert [file.source for file in found.files] == [str(tmp_path / "16.log")]
    assert "8.log" in str(found.refused[0]) and "8 ranks" in str(found.refused[0])


@pytest.mark.parametrize("names", list(itertools.permutations(("run.log", "copy.log", "link.log"))))
def test_the_same_content_counts_once_however_it_is_named(
    folder: Path, names: tuple[str, ...]
) -> None:
    (folder / "copy.log").write_text(GOOD["run.log"])
    (folder / "link.log").symlink_to(folder / "run.log")
    found = read_measured([folder / name for name in (*names, "out.json", names[0])])
    assert [Path(file.source).name for file in found.files] == [names[0], "out.json"]
    first = str(folder / names[0])
    assert found.repeats == tuple((str(folder / n), first) for n in (*names[1:], names[0]))


def test_files_that_differ_in_one_figure_are_two(folder: Path) -> None:
    long = json_file().replace(
        '"end_time"', " " * 20_000 + '"end_time"'
    )  # beyond what is peeked at
    (folder / "a.json").write_text(long + "\n")
    (folder / "b.json").write_text(long + "\n\n")
    found = read_measured([folder / "a.json", folder / "b.json"])
    assert len(found.files) == 2 and not found.repeats


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    found = read_measured([Path("-"), Path("-")])
    assert len(found.files) == 1 and not found.refused
    assert found.repeats == (("standard input", "standard input"),)


def test_a_link_in_a_circle_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (error,) = read_measured([tmp_path / "a"]).refused
    assert "cannot be read" in str(error)


def test_a_record_without_a_time_takes_nothing_from_the_others(tmp_path: Path) -> None:
    none = inspector()
    none["coll_perf"]["coll_exec_time_us"] = 0  # type: ignore[index]
    path = tmp_path / "i.log"
    path.write_text("".join(json.dumps(r) + "\n" for r in (inspector(), none, inspector())))
    (file,) = read_measured([path]).files
    assert [row.line for row in file.rows] == [1, 3]
    assert "line 2: a time of 0" in file.findings[0].evidence[0]
