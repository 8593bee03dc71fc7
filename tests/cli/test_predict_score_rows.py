"""``predict score`` of one machine: its rows, what they were predicted on, and what to type to see why."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.cost.bands import BANDS

HEADER = (
    "table_id,system,gpu,n_nodes,gpus_per_node,n_ranks,intra_fabric,inter_fabric,collective,dtype,in_place,"
    "size_bytes,time_us,nccl_version,algo,proto,health\n"
)
HGX = "x,H100-SXM,1,8,8,nvswitch3-900,none"
PAIR = "x,H100-SXM,2,8,16,nvswitch3-900,8x400G IB NDR"
MEGA = "x,H100-SXM,2,8,16,nvswitch3-900,GPUDirect-TCPXO 1600G (8x200G)"
HALF = "x,H100-SXM,2,4,8,nvswitch3-900,8x400G IB NDR"
L40S = "x,L40S,1,4,4,pcie4,none"
AMD = "x,MI300X,1,8,8,xgmi-mesh,none"
SIZES = tuple(1 << power for power in (10, 17, 23, 28))


def write(
    folder: Path, machine: str = HGX, *, version: str = "", algo: str = "", proto: str = "",
    collective: str = "all_reduce", health: str = "healthy",
) -> Path:  # fmt: skip
    path = folder / "m.csv"
    path.write_text(
        HEADER
        + "".join(
            f"t,{machine},{collective},float,{at % 2},{size},{15 + size / 2e5},{version},{algo},{proto},"
            f"{health}\n"
            for at, size in enumerate(SIZES)
        )
    )
    return path


def scored(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["predict", "score", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["predict", "score", *words]) == 0
    return capsys.readouterr().out


def test_rows_are_in_the_json_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path, version="2.27.5"))
    assert "rows" not in scored(capsys, path)
    found = scored(capsys, path, "--rows")
    rows = found["rows"]
    assert [row["size_bytes"] for row in rows] == list(SIZES)
    assert [row["in_place"] for row in rows] == [False, True, False, True]
    for row in rows:
        assert row["error_pct"] == pytest.approx(
            (row["predicted_us"] / row["measured_us"] - 1) * 100
        )
        assert row["table"] == "t" and row["algorithm"] and row["protocol"] and row["limited_by"]
    errors = [abs(row["error_pct"]) for row in rows]
    assert found["overall"]["mape_pct"] == pytest.approx(sum(errors) / len(errors))
    assert abs(found["worst"]["error_pct"]) == max(errors)


def test_rows_are_printed_where_they_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path))
    plain, full = printed(capsys, path), printed(capsys, path, "--rows")
    assert "limited by" not in plain
    rows = re.findall(r"^t +(\S+ \S+) +(in|out) +(\S+) +(\S+) +([+-]\S+%)  (\S+) +\S", full, re.M)
    assert [row[0] for row in rows] == ["1 KiB", "128 KiB", "8 MiB", "256 MiB"]
    for _, _, measured, predicted, error, _ in rows:
        assert float(error[:-1]) == pytest.approx(
            (float(predicted) / float(measured) - 1) * 100, abs=0.2
        )


def test_a_row_that_is_not_predicted_is_listed_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text() + f"u,{HGX},hypercube,float,0,8,9,,,,healthy\n")
    (row,) = [row for row in scored(capsys, str(path), "--rows")["rows"] if row["table"] == "u"]
    assert row["predicted_us"] is None and "hypercube" in row["not_predicted"]
    out = printed(capsys, str(path), "--rows")
    assert re.search(r"^u +8 B +out +9.00 +- +missed .*hypercube", out, re.M)
    assert "1 rows not predicted, each counts as -100%" in out


@pytest.mark.parametrize(
    ("machine", "words", "saved"),
    [
        (HGX, [], False),
        (PAIR, [], False),
        (MEGA, [], True),
        (HALF, [], False),
        (L40S, [], True),
        (AMD, [], False),
        (HGX, ["--fabric", "dgx-h100-2node"], False),
        (PAIR, ["--timing", "eager", "-x", "NCCL_ALGO=Tree", "--nccl-version", "2.21.5"], False),
        (MEGA, ["-x", "NCCL_P2P_DISABLE=1", "--timing", "graph"], True),
    ],
)
@pytest.mark.parametrize("collective", ["all_reduce", "alltoall"])
def test_what_is_said_to_type_predicts_the_worst_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    machine: str, words: list[str], saved: bool, collective: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write(tmp_path, machine, collective=collective)
    worst = scored(capsys, "m.csv", *words)["worst"]
    if collective == "all_reduce":
        assert (worst["save_fabric"] is not None) == saved
    if worst["save_fabric"] is not None:
        command, *typed = shlex.split(worst["save_fabric"])
        assert command == "clusterlab" and main(typed) == 0
        capsys.readouterr()
    command, *typed = shlex.split(worst["explain"])
    assert command == "clusterlab" and typed[-1] == "--explain"
    assert main([*typed, "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)
    assert point["time_us"] == pytest.approx(worst["predicted_us"], rel=2e-3)
    assert point["explanation"] is not None
    assert worst["explain"] in printed(capsys, "m.csv", *words)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (HGX, "4 rows on 8 x H100-SXM5-80GB, NVSwitch, NCCL 2.30.7 (not said in the file)"),
        (PAIR, "4 rows on 2 x 8 H100-SXM5-80GB, NVSwitch, 8 x 400 Gb/s ib, NCCL 2.30.7 (not said"),
        (MEGA, "8 x 200 Gb/s tcpxo"),
        (L40S, "4 x L40S, PCIe"),
        (AMD, "8 x MI300X, xGMI, RCCL 2.21.5 (not said in the file)"),
    ],
)
def test_the_machine_and_the_release_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], machine: str, said: str
) -> None:
    assert said in printed(capsys, str(write(tmp_path, machine)))


@pytest.mark.parametrize(
    ("version", "words", "release", "source"),
    [
        ("", [], "2.30.7", "newest known"),
        ("2.26.2+cuda12.8", [], "2.26.2", "file"),
        ("2.26.2", ["--nccl-version", "2.21.5"], "2.26.2", "file"),
        ("", ["--nccl-version", "2.21.5"], "2.21.5", "--nccl-version"),
        ("soon", [], "2.30.7", "newest known"),
        ("soon", ["--nccl-version", "2.21.5"], "2.21.5", "--nccl-version"),
    ],
)
def test_the_release_is_the_rows_own_else_the_one_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, words: list[str], release: str,
    source: str,
) -> None:  # fmt: skip
    path = str(write(tmp_path, PAIR, version=version))
    found = scored(capsys, path, *words)
    (system,) = found["systems"]
    assert (system["version"], system["version_from"]) == (release, source)
    assert (system["library"], system["rows"], system["systems"]) == ("NCCL", 4, ["x"])
    same = scored(capsys, str(write(tmp_path, PAIR, version=release)))
    assert same["overall"] == found["overall"]
    own = any("--nccl-version does not count" in note for note in found["notes"])
    assert own == (source == "file" and bool(words))


def test_a_fabric_that_is_named_is_named_with_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path))
    out = printed(capsys, path, "--fabric", "dgx-h100-2node")
    assert "4 rows on dgx-h100-2node: 2 x 8 H100" in out


def test_many_machines_are_counted_and_the_release_taken_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.csv"
    rows = (
        f"t{n},x,H100-SXM,{n},8,{8 * n},nvswitch3-900,8x400G IB,all_reduce,float,0,8,9,,,,healthy\n"
        for n in range(1, 9)
    )
    path.write_text(HEADER + "".join(rows))
    out = printed(capsys, str(path))
    assert "8 rows on 8 machines" in out
    assert "8 rows name no release: NCCL 2.30.7 is taken" in out


@pytest.mark.parametrize("value", ["Tree", "tree", "NCCL_ALGO=Tree", "TREE (forced)", '"Tree"'])
def test_a_plain_algorithm_is_predicted_as_it_is_when_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    forced = scored(capsys, str(write(tmp_path, PAIR, algo="Tree (forced)")), "--rows")
    assert {row["algorithm"] for row in forced["rows"]} == {"tree"}
    found = scored(capsys, str(write(tmp_path, PAIR, algo=value)), "--rows")
    assert found["rows"] == forced["rows"]
    assert any("NCCL_ALGO=Tree (4)" in note for note in found["notes"])


@pytest.mark.parametrize(
    "value", ["", "default", "default (Tree)", "Tree (observed)", "Tree(per source)"]
)
def test_what_is_default_or_observed_is_not_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    free = scored(capsys, str(write(tmp_path, PAIR)))
    found = scored(capsys, str(write(tmp_path, PAIR, algo=value)))
    assert found["overall"] == free["overall"]
    assert not any("not read" in note for note in found["notes"])


def test_a_cell_that_nobody_reads_is_named_once_with_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path, PAIR, algo="mine v2", proto="LL129"))
    found = scored(capsys, path)
    assert found["overall"] == scored(capsys, str(write(tmp_path, PAIR)))["overall"]
    (note,) = [note for note in found["notes"] if "not read" in note]
    assert "algo 'mine v2' (4 rows)" in note and "proto 'LL129' (4 rows)" in note
    assert "NCCL_ALGO=Tree" in note


def test_variables_of_all_rows_count_and_a_rows_own_win(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = scored(capsys, str(write(tmp_path, PAIR)), "-x", "NCCL_ALGO=Ring", "--rows")
    assert {row["algorithm"] for row in ring["rows"]} == {"ring"}
    own = scored(capsys, str(write(tmp_path, PAIR, algo="Tree")), "-x", "NCCL_ALGO=Ring", "--rows")
    assert {row["algorithm"] for row in own["rows"]} == {"tree"}
    assert any("4 rows keep what their own algo or proto says" in note for note in own["notes"])
    odd = scored(capsys, str(write(tmp_path, PAIR)), "-x", "NCCL_BUFFSIZE=1")
    assert any(note.startswith("4 rows: NCCL_BUFFSIZE is set") for note in odd["notes"])


def test_how_calls_are_issued_counts_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path))
    plain = scored(capsys, path, "--rows")
    assert any(note.startswith("timing library") for note in plain["notes"])
    assert scored(capsys, path, "--timing", "library", "--rows")["rows"] == plain["rows"]
    eager = scored(capsys, path, "--timing", "eager", "--rows")
    assert any(note.startswith("timing eager") for note in eager["notes"])
    assert eager["rows"][0]["predicted_us"] > plain["rows"][0]["predicted_us"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nccl-version", "soon"], "--nccl-version: 'soon'"),
        (["--timing", "eagre"], "did you mean 'eager'"),
        (["--routing", "hsah"], "did you mean 'hash'"),
        (["-x", "FOO=1"], "-x: 'FOO=1'"),
        (["-x", "NCCL_ALGO"], "NCCL_ALGO has no value"),
        (["-x", "NCCL_ALGO=Wombat"], "unknown value 'Wombat'"),
        (["--fabric", "hgx-h100", "--save-fabric", "f.yaml"], "--save-fabric"),
        (["--fabric", "h100-2"], "--fabric h100-2: 8 ranks in"),
    ],
)
def test_what_cannot_be_is_one_line_of_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(["predict", "score", str(write(tmp_path)), *words]) == 2
    out, err = capsys.readouterr()
    assert said in err and not out and len(err.splitlines()) == 1


def test_rows_that_a_fabric_has_no_place_for_are_misses_beside_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path)
    path.write_text(path.read_text() + f"u,{PAIR},all_reduce,float,0,8,9,,,,healthy\n")
    found = scored(capsys, str(path), "--fabric", "hgx-h100")
    assert found["overall"]["n"] == 5 and found["overall"]["unpredicted"] == 1
    assert main(["predict", "score", str(path), "--fabric", "h100-2"]) == 2
    assert "8 to 16 ranks" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--json"]])
@pytest.mark.parametrize("health", ["unhealthy", "unknown"])
def test_a_file_without_a_healthy_table_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], health: str, words: list[str]
) -> None:
    assert main(["predict", "score", str(write(tmp_path, health=health)), *words]) == 2
    out, err = capsys.readouterr()
    assert not out and f"none of 4 rows is of a healthy table: health is '{health}'" in err
    assert "wrong elements" in err


def test_where_nothing_is_predicted_no_table_of_misses_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write(tmp_path, "x,Voodoo 5,1,8,8,agp,none"))
    assert main(["predict", "score", path]) == 3
    out, err = capsys.readouterr()
    assert "100.0%" not in out and "not predicted, 4 rows" in out and "nothing could be" in err


@pytest.mark.parametrize("by", ["size_band", "n_nodes", "n_ranks,size_band", "size_band,n_ranks"])
def test_bands_rise_and_no_block_is_printed_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    path = str(write(tmp_path))
    found = scored(capsys, path, "--by", by)
    if "size_band" in by:
        assert [group["size_band"] for group in found["groups"]] == list(BANDS)
    lines = printed(capsys, path, "--by", by).splitlines()
    for first in (BANDS[0], "1 node "):
        expected = 2 if first == BANDS[0] and by == "size_band,n_ranks" else 1
        assert sum(line.startswith(first) for line in lines) == expected
    assert any("plateau predicted/measured" in line for line in lines)
