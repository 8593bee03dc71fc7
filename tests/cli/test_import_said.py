"""`clusterlab import`: what the user says beside the files, what is written where, and what is wrong."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.formats.measured.examples import BANNER, SIZES, devices, json_file, table

CHOICES = "".join(
    f"n0:1:2 [0] NCCL INFO AllReduce: {size} Bytes -> Algo RING proto LL128 channel{{Lo..Hi}}={{0..7}}\n"
    for size in SIZES
)
VERSION = "n0:1:2 [0] NCCL INFO NCCL version 2.26.2+cuda12.8\n"
ENVIRONMENT = "n0:1:2 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"


def log(folder: Path, *, before: str = "", name: str = "run.log", wrong: str = "0") -> Path:
    path = folder / name
    rows = table("all_reduce", 8, wrong=wrong, in_place_wrong=wrong)
    path.write_text("$ all_reduce_perf\n" + BANNER + devices(1, 8) + before + rows)
    return path


def cells(text: str, column: str) -> set[str]:
    return {row[column] for row in csv.DictReader(io.StringIO(text))}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--ranks", "16"],
            "--ranks 16, but the file says otherwise; run.log, table 1: 8 (devices listed)",
        ),
        (["--nodes", "2"], "--nodes 2, but"),
        (["--gpus-per-node", "4"], "--gpus-per-node 4, but"),
        (["--collective", "broadcast"], "all_reduce (command all_reduce_perf)"),
        (["--nccl-version", "2.27.5"], "--nccl-version 2.27.5, but"),
    ],
)
@pytest.mark.parametrize("output", [[], ["--json"], ["-o", "-"]])
def test_what_the_file_says_otherwise_is_kept_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: list[str], said: str, output: list[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    log(tmp_path, before=VERSION)
    assert main(["import", "run.log", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert main(["import", "run.log", *words, *output]) == 0
    out, err = capsys.readouterr()
    assert said in (err if output else out)
    assert "option_contradicted" in (err if output else out)
    if output == ["--json"]:
        assert json.loads(out) == alone


@pytest.mark.parametrize(
    "words",
    [
        ["--ranks", "8"],
        ["--nodes", "1", "--gpus-per-node", "8"],
        ["--collective", "allreduce"],
        ["--nccl-version", "2.26.2"],
        ["--gpu", "H100-SXM", "--system", "here", "--intra", "nvswitch3", "--inter", "none"],
    ],
)
def test_what_the_file_says_too_is_no_contradiction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["import", str(log(tmp_path, before=VERSION)), *words]) == 0
    assert "option_contradicted" not in capsys.readouterr().out


def test_of_several_files_those_that_say_otherwise_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bare.log").write_text(table("all_reduce", 16))
    files = [str(log(tmp_path)), str(tmp_path / "bare.log")]
    assert main(["import", *files, "--ranks", "16"]) == 0
    out = capsys.readouterr().out
    assert out.count("option_contradicted") == 1 and "run.log, table 1: 8" in out


def test_a_release_is_filled_in_where_no_file_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, silent = log(tmp_path, before=VERSION), log(tmp_path, name="silent.log")
    for path, expected in ((said, "2.26.2+cuda12.8"), (silent, "2.27.5")):
        assert main(["import", str(path), "--nccl-version", "2.27.5", "-o", "-"]) == 0
        assert cells(capsys.readouterr().out, "nccl_version") == {expected}
    assert main(["import", str(silent), "--nccl-version", "new"]) == 2
    assert "--nccl-version: 'new'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "algo", "proto"),
    [
        ("", "", ""),
        (CHOICES, "ring (observed)", "ll128 (observed)"),
        (ENVIRONMENT, "ring (forced)", ""),
        (ENVIRONMENT + CHOICES, "ring (forced)", "ll128 (observed)"),
    ],
)
def test_the_csv_says_whether_a_choice_was_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, algo: str, proto: str
) -> None:
    assert main(["import", str(log(tmp_path, before=before)), "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert (cells(out, "algo"), cells(out, "proto")) == ({algo}, {proto})


@pytest.mark.parametrize(
    ("before", "notes"), [(CHOICES, []), (ENVIRONMENT, ["NCCL_ALGO=Ring (8)"])]
)
def test_only_a_forced_choice_is_forced_on_the_prediction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, notes: list[str]
) -> None:
    out = tmp_path / "run.csv"
    assert main(["import", str(log(tmp_path, before=before)), "-o", str(out)]) == 0
    capsys.readouterr()
    assert main(["predict", "score", str(out), "--json"]) == 0
    found = [note for note in json.loads(capsys.readouterr().out)["notes"] if "algo" in note]
    assert len(found) == len(notes)
    assert all(part in note for part, note in zip(notes, found, strict=True))


def test_a_dash_writes_the_csv_on_standard_output_and_the_rest_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, written = log(tmp_path), tmp_path / "run.csv"
    assert main(["import", str(path), "-o", str(written)]) == 0
    plain = capsys.readouterr().out
    assert main(["import", str(path), "-o", "-"]) == 0
    out, err = capsys.readouterr()
    assert out == written.read_text() and plain in err
    assert not (tmp_path / "-").exists() and not Path("-").exists()


@pytest.mark.parametrize("word", ["--json", "--tuning"])
def test_two_things_on_standard_output_are_one_too_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert main(["import", str(log(tmp_path)), "-o", "-", word]) == 2
    out, err = capsys.readouterr()
    assert not out and word in err and "standard output" in err


def test_a_file_whose_rows_all_have_wrong_elements_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, written = log(tmp_path, wrong="7"), tmp_path / "run.csv"
    assert main(["import", str(path), "-o", str(written)]) == 1
    out, err = capsys.readouterr()
    assert "8 rows, all with wrong elements" in out
    assert "all of 8 rows are of tables with wrong elements" in err
    assert main(["predict", "score", str(written)]) == 2
    assert "none of 8 rows is of a healthy table: health is 'unhealthy'" in capsys.readouterr().err


def test_a_file_of_which_some_rows_are_wrong_says_how_many(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = log(tmp_path, wrong="7"), tmp_path / "good.json"
    good.write_text(json_file())
    half = tmp_path / "half.log"
    half.write_text(
        "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8, wrong="1")
    )
    assert main(["import", str(half), str(good), "-o", str(tmp_path / "o.csv")]) == 1
    out, err = capsys.readouterr()
    assert (
        "half.log: output of nccl-tests or one that prints as it does, 8 rows, 4 with wrong" in out
    )
    assert "8 of 16 rows are of tables with wrong elements" in err
    assert main(["import", str(good), "-o", str(tmp_path / "o.csv")]) == 0
    out, err = capsys.readouterr()
    assert "wrong" not in out + err and bad.exists()
