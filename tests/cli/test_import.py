"""`clusterlab import`: what it prints, writes and exits with."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.formats.measured.csv_table import COLUMNS
from tests.formats.measured.examples import BANNER, SIZES, devices, inspector, json_file, table
from tests.support import shared_dir


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.log"
    path.write_text("$ alltoall_perf\n" + BANNER + devices(2, 8) + table("all_to_all", 16))
    return path


def test_a_table_of_what_was_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(log)]) == 0
    out = capsys.readouterr().out
    assert "all_to_all  16     2×8    NVIDIA H100 80GB HBM3  1 MiB to 8 MiB  8" in out
    assert "command alltoall_perf" in out


def test_json_is_the_list_of_rows_of_all_files(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out.json").write_text(json_file())
    (tmp_path / "i.log").write_text(json.dumps(inspector()) + "\n")
    files = [str(log), str(tmp_path / "out.json"), str(tmp_path / "i.log")]
    assert main(["import", *files, "--json", "--system", "here"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 4 * len(SIZES) + 1
    assert {row["tool"] for row in rows} == {"nccl-tests", "nccl-inspector"}
    assert {row["system"] for row in rows} == {"here"}


def test_the_csv_has_the_columns_of_published_tables(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    words = [
        "--system",
        "dgx-h100",
        "--gpu",
        "H100-SXM",
        "--inter",
        "8x400G IB NDR",
        "--health",
        "healthy",
    ]
    assert main(["import", str(log), *words, "-o", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 2 * len(SIZES)
    expected = {
        "table_id": "run", "system": "dgx-h100", "gpu": "H100-SXM", "n_nodes": "2", "gpus_per_node": "8",
        "n_ranks": "16", "intra_fabric": "", "inter_fabric": "8x400G IB NDR", "collective": "alltoall",
        "dtype": "float", "in_place": "0", "size_bytes": "1048576", "health": "healthy",
    }  # fmt: skip
    assert {key: rows[0][key] for key in expected} == expected


def test_the_columns_are_those_of_the_published_file() -> None:
    path = shared_dir() / "measured/published_nccl_tests.csv"
    with path.open() as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_a_table_with_wrong_elements_is_unhealthy_whatever_is_said(tmp_path: Path) -> None:
    log, out = tmp_path / "bad.log", tmp_path / "bad.csv"
    log.write_text(
        "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8, wrong="2")
    )
    assert main(["import", str(log), "--health", "healthy", "-o", str(out)]) == 1
    assert {row["health"] for row in csv.DictReader(out.read_text().splitlines())} == {"unhealthy"}


def test_tuning_lines_are_printed_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "t.log"
    log.write_text(
        "n0:1:2 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n" * 3
    )
    assert main(["import", str(log), "--tuning"]) == 0
    (file,) = json.loads(capsys.readouterr().out)
    assert [(choice["bytes"], choice["calls"]) for choice in file["choices"]] == [(8, 3)]
    assert main(["import", str(log), "-o", str(tmp_path / "t.csv")]) == 2
    assert "none of 0 rows" in capsys.readouterr().err


def test_a_log_without_tuning_lines_has_none_to_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "plain.log"
    log.write_text("$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8))
    assert main(["import", str(log), "--tuning"]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "plain.log: no TUNING lines" in said.err
    assert "NCCL_DEBUG_SUBSYS=TUNING" in said.err


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (b"", [], "empty"),
        (b"\x7fELF\0\0\0", [], "not text"),
        (b"hello\n", [], "nothing that was measured"),
        (None, [], "No such file"),
        (b"hello\n", ["--collective", "all_reduec"], "all_reduce"),
        (table("all_reduce", 16).encode(), ["--nodes", "3", "--gpus-per-node", "8"], "16 ranks"),
    ],
)
def test_bad_input_is_one_clear_error(
    content: bytes | None, words: list[str], message: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "x.log"
    if content is not None:
        path.write_bytes(content)
    assert main(["import", str(path), *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_other_encodings_and_ends_of_line(tmp_path: Path) -> None:
    text = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    for name, data in (
        ("crlf", text.replace("\n", "\r\n").encode()),
        ("utf16", text.encode("utf-16")),
        ("bom", b"\xef\xbb\xbf" + text.encode()),
        ("noise", b"\xf0\xff\n" + text.encode() + b"\xff\n"),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        assert main(["import", str(path)]) == 0, name


def test_what_import_writes_is_what_predict_score_reads(tmp_path: Path) -> None:
    """Of a log alone: no system is said, and nothing of health."""
    log, written = tmp_path / "run.log", tmp_path / "run.csv"
    log.write_text("$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8))
    assert main(["import", str(log), "-o", str(written)]) == 0
    assert main(["predict", "score", str(written)]) == 0


@pytest.mark.parametrize("words", [["--json"], [], ["-o", "all.csv"]])
def test_the_good_files_come_out_and_the_bad_ones_are_named(
    log: Path, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.json").write_text(json_file())
    (tmp_path / "bad.log").write_text("hello\n")
    files = ["bad.log", str(log), "none.log", "out.json"]
    assert main(["import", *files, *words]) == 2
    out, err = capsys.readouterr()
    assert "clusterlab: bad.log: nothing that was measured" in err
    assert "clusterlab: none.log: cannot be read" in err
    if words == ["--json"]:
        assert len(json.loads(out)) == 4 * len(SIZES)
    elif words:
        assert len(Path("all.csv").read_text().splitlines()) == 1 + 4 * len(SIZES)
    else:
        assert "run.log: " in out and "out.json: " in out


def test_where_no_file_is_good_nothing_is_printed_or_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text("hello\n")
    written = tmp_path / "out.csv"
    assert (
        main(["import", str(tmp_path / "a.log"), str(tmp_path / "b.log"), "-o", str(written)]) == 2
    )
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 2 and not written.exists()


def test_the_same_file_twice_is_counted_once_and_said(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.log"
    copy.write_bytes(log.read_bytes())
    assert main(["import", str(log), str(copy), str(log), "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 2 * len(SIZES)
    assert err.splitlines() == [
        f"clusterlab: {name}: the same as {log}, counted once" for name in (copy, log)
    ]


def test_rows_without_a_time_are_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(json_file())
    document["results"][1]["out_of_place"] = {"time": 0.0, "alg_bw": 0.0, "bus_bw": 0.0}
    path = tmp_path / "out.json"
    path.write_text(json.dumps(document))
    assert main(["import", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert len(rows) == 2 * len(SIZES) - 1 and all(row["time_us"] > 0 for row in rows)
    assert "rows_unusable" in err and "result 2: a time of 0" in err


@pytest.mark.parametrize(
    "names", [("run.log", "x/run.log"), ("run.log", "run-1.log"), ("run-2.log", "run.log")]
)
def test_every_table_has_a_name_of_its_own(tmp_path: Path, names: tuple[str, str]) -> None:
    """``run.log`` holds two tables: run-1 and run-2, unless another file is called so."""
    (tmp_path / "x").mkdir()
    for at, name in enumerate(names):
        text = "$ all_reduce_perf\n" + BANNER + devices(1, 8 - at) + table("all_reduce", 8 - at)
        (tmp_path / name).write_text(text * (2 if Path(name).name == "run.log" else 1))
    out = tmp_path / "out.csv"
    assert main(["import", *(str(tmp_path / name) for name in names), "-o", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    tables = {row["table_id"]: row["n_ranks"] for row in rows}
    expected = sum(2 if Path(name).name == "run.log" else 1 for name in names)
    assert len(tables) == expected and len(rows) == 2 * len(SIZES) * expected
