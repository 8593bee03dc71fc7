"""``clusterlab predict score`` beside ``clusterlab predict``: what it prints, writes and exits with."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from clusterlab.cli.main import main

HEADER = "system,nccl_version,collective,dtype,n_ranks,size_bytes,time_us\n"
ROWS = "".join(
    f"{system},2.27.3,{name},half,{n},{1 << exponent},{10 + (1 << exponent) / 1e5}\n"
    for system in ("h100_sxm", "l40s")
    for name in ("all_reduce", "alltoall")
    for n in (2, 4)
    for exponent in (10, 20, 28)
)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + ROWS, encoding="utf-8")
    return path


def scored(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["predict", "score", *words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_json_has_overall_groups_and_the_librarys_own_figures(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = scored(capsys, str(csv))
    figures = {"n", "unpredicted", "mape_pct", "median_pct", "p90_pct", "bias_pct"}
    assert set(found["overall"]) == figures  # type: ignore[call-overload]
    assert found["overall"]["n"] == 24 and found["overall"]["unpredicted"] == 0  # type: ignore[index]
    assert [(g["system"], g["collective"], g["n"]) for g in found["groups"]] == [  # type: ignore[attr-defined]
        ("h100_sxm", "all_reduce", 6),
        ("h100_sxm", "all_to_all", 6),
        ("l40s", "all_reduce", 6),
        ("l40s", "all_to_all", 6),
    ]
    assert all(set(g) == figures | {"system", "collective"} for g in found["groups"])  # type: ignore[attr-defined]
    assert [b["size_band"] for b in found["by_size_band"]] == ["<64 KiB", "1-64 MiB", ">=64 MiB"]  # type: ignore[attr-defined]
    assert set(found["nccl_model"]) >= {"overall", "groups", "by_size_band", "by_nodes"}  # type: ignore[call-overload]
    assert len(found["tables"]) == 8 and found["plateau"]["tables"] == 8  # type: ignore[arg-type, index]


def test_the_groups_are_those_asked_for(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = scored(capsys, str(csv), "--by", "n_ranks")
    assert [g["n_ranks"] for g in found["groups"]] == [2, 4]  # type: ignore[attr-defined]


def test_a_fabric_takes_the_place_of_the_words(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = scored(capsys, str(csv), "--by", "system")
    same = scored(capsys, str(csv), "--by", "system", "--fabric", "hgx-h100")
    assert mixed["groups"][0] == same["groups"][0]  # type: ignore[index]
    assert mixed["groups"][1] != same["groups"][1]  # type: ignore[index]


def test_one_latency_says_which_rows_it_spent(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = scored(capsys, str(csv), "--one-latency")
    assert found["overall"]["n"] == 16  # type: ignore[index]
    assert any("one latency: 8 rows" in note for note in found["notes"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_one_latency_without_a_second_size_says_why_there_is_no_score(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"h100_sxm,2,{name},half,8,512,9\n" for name in ("all_reduce", "broadcast"))
    path = tmp_path / "m.csv"
    path.write_text(HEADER + rows)
    assert main(["predict", "score", str(path), "--one-latency", *words]) == 3
    out, err = capsys.readouterr()
    assert "no row is left to score" in err and "2 tables have no other rows" in out
    path.write_text(HEADER + rows + "h100_sxm,2,all_reduce,half,8,1024,9\n")
    found = scored(capsys, str(path), "--one-latency")
    assert found["overall"]["n"] == 1 and found["no_verdict"] is None  # type: ignore[index]
    assert any("1 tables have no other rows" in note for note in found["notes"])  # type: ignore[attr-defined]


def test_what_is_left_out_is_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.csv"
    path.write_text(
        HEADER + "".join(f"h100_sxm,2,all_reduce,half,8,512,{t}\n" for t in (9, 0, 1e-9))
    )
    found = scored(capsys, str(path))
    assert found["overall"]["n"] == 1  # type: ignore[index]
    assert [one["line"] for one in found["unusable"]] == [3, 4]  # type: ignore[attr-defined]
    assert any("2 rows with figures that nothing measures" in note for note in found["notes"])  # type: ignore[attr-defined]


def test_standard_input_is_scored_as_a_file_is(
    csv: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(csv.read_bytes())))
    piped, named = scored(capsys, "-"), scored(capsys, str(csv))
    for one in (piped, named):  # names the file
        one["worst"]["save_fabric"] = None  # type: ignore[index]
    assert piped == named
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    assert main(["predict", "score", "-"]) == 2
    assert "standard input: not UTF-8" in capsys.readouterr().err


def test_people_get_a_table_of_groups_and_one_line_per_table(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "score", str(csv)]) == 0
    out = capsys.readouterr().out
    assert "l40s all_reduce 4 2.27.3" in out and "within 10%" in out and "NCCL's own" in out


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (HEADER, 2, "no measurement that counts"),
        (HEADER + "h100_sxm,2,all_reduce,half,2,512,soon\n", 2, "m.csv:2: time_us is 'soon'"),
        (HEADER + "h100_sxm,2,all_reduce,half,2,512,0\n", 2, "line 2: a time of 0"),
        (HEADER + "voodoo,2,all_reduce,half,2,512,9\n", 3, "nothing could be predicted: 1 rows: "),
    ],
)
def test_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")
    assert main(["predict", "score", str(tmp_path / "m.csv")]) == code
    assert said in capsys.readouterr().err


def test_unknown_columns_and_missing_files_are_bad_input(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "score", str(csv), "--by", "colour"]) == 2
    assert "--by: unknown column 'colour'" in capsys.readouterr().err
    assert main(["predict", "score", str(csv.with_name("none.csv"))]) == 2


def test_predict_itself_still_needs_a_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "-b", "1M"]) == 2
    assert "--fabric" in capsys.readouterr().err
    assert main(["predict", "--fabric", "h100-2", "-b", "1M"]) == 0
