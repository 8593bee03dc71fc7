"""Single rows whose figures contradict the rest of their table: left out and named, the rest is read."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.formats.measured.file import MeasuredFile
from clusterlab.formats.measured.log import read_log
from tests.formats.measured.examples import BANNER, SIZES, devices, json_file, table

HEADS = {
    "table alone": "",
    "with devices": BANNER + devices(1, 8),
    "with program": "# Collective test starting: {}_perf\n" + BANNER + devices(1, 8),
}


def with_odd(text: str, size: int, column: int, value: str) -> str:
    """``text`` with one figure of one row, counted from its time on, changed."""
    lines = text.splitlines()
    (at,) = (i for i, line in enumerate(lines) if re.match(rf"\s*{size}\s", line))
    words = lines[at].split()
    words[5 + column] = value
    lines[at] = "  ".join(words)
    return "\n".join(lines) + "\n"


def read(text: str) -> MeasuredFile:
    return read_log(text.splitlines(), file="run.log")


def unusable(file: MeasuredFile) -> str:
    return " ".join(e for f in file.findings if f.code == "rows_unusable" for e in f.evidence)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("column", "value"), [(2, "999.00"), (1, "3.00"), (2, "0.50"), (5, "900.00"), (6, "1.00")]
)
def test_one_odd_row_is_left_out_alone(
    head: str, name: str, size: int, column: int, value: str
) -> None:
    whole = HEADS[head].format(name) + table(name, 8)
    file, sound = read(with_odd(whole, size, column, value)), read(whole)
    line = next(
        i for i, text in enumerate(whole.splitlines(), 1) if re.match(rf"\s+{size}\s", text)
    )
    in_place = column > 3
    assert [(r.size_bytes, r.in_place, r.collective, r.world_size) for r in file.rows] == [
        (r.size_bytes, r.in_place, r.collective, r.world_size)
        for r in sound.rows
        if (r.size_bytes, r.in_place) != (size, in_place)
    ]
    assert f"1 left out, line {line}: " in unusable(file) and "algbw" in unusable(file)


@pytest.mark.parametrize("odd", [2, 3, 4])
def test_where_most_rows_do_not_fit_none_is_left_out(odd: int) -> None:
    text = HEADS["with program"].format("all_reduce") + table("all_reduce", 8)
    for size in SIZES[:odd]:
        for column in (2, 6):
            text = with_odd(text, size, column, "61.00")
    file = read(text)
    assert len(file.rows) == 2 * len(SIZES) and not unusable(file)
    assert "busbw_disagrees" in {f.code for f in file.findings}


@pytest.mark.parametrize("kind", ["log", "json"])
def test_commands_read_the_rest_and_name_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = tmp_path / f"nt.{kind}"
    if kind == "log":
        path.write_text(with_odd(table("all_reduce", 8), SIZES[1], 2, "999.00"))
    else:
        data = json.loads(json_file())
        data["results"][1]["out_of_place"] = {**data["results"][1]["out_of_place"], "bus_bw": 999.0}
        path.write_text(json.dumps(data))
    assert main(["baseline", "save", str(path), "-o", str(tmp_path / "b.yaml")]) == 0
    out, err = capsys.readouterr()
    assert f"{2 * len(SIZES) - 1} points" in out and "999 GB/s" in err
    main(["compare", str(path), str(path)])
    assert "999 GB/s" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["log", "json", "csv"])
def test_why_reads_from_standard_input_what_it_reads_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    text = json_file() if kind == "json" else BANNER + devices(1, 8) + table("all_reduce", 8)
    path = tmp_path / f"stdin.{kind}"
    path.write_text(text)
    if kind == "csv":
        (tmp_path / "run.log").write_text(text)
        assert main(["import", str(tmp_path / "run.log"), "-o", str(path)]) == 0
    words = ["--fabric", "hgx-h100", "--json"]
    capsys.readouterr()
    code = main(["why", str(path), *words])
    from_file = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["why", "-", *words]) == code
    from_stdin = json.loads(capsys.readouterr().out)
    assert [t["hypotheses"] for t in from_stdin["tables"]] == [
        t["hypotheses"] for t in from_file["tables"]
    ]
    assert from_file["tables"][0]["points"] > 0
