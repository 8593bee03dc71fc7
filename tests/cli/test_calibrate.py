"""``clusterlab calibrate`` and ``predict --calibration``: what they print, write and exit with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.cost.calibrated.file import load_system_calibration
from tests.runs.test_calibrate import rows_of, write


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("measured") / "m.csv", rows_of())


@pytest.fixture(scope="module")
def made(csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrated") / "cal.yaml"
    assert main(["calibrate", str(csv), "-o", str(path)]) == 0
    return path


def test_it_writes_the_file_and_prints_the_score(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cal.yaml"
    assert main(["calibrate", str(csv), "-o", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "h100_sxm: 8 x H100 a host, NVSwitch, nccl; 60 points" in out
    assert "every fourth size" in out and "a number of ranks" in out and "alpha-beta" in out
    assert "held out" not in out and str(path) in err
    assert load_system_calibration(path).system == "h100_sxm"


def test_json_has_the_calibration_and_what_was_held_out(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(csv), "--hold-out", "n=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"rows", "calibration", "held_out", "notes"}
    assert found["rows"] == 40 and found["calibration"]["machine"]["gpu"] == "H100"
    first = found["held_out"][0]
    assert first["group"] == "all rows" and first["n"] == 20
    assert (
        {"mape_pct", "median_pct", "p90_pct", "n"}
        == set(first["calibrated"])
        == set(first["alpha_beta"])
    )


def test_held_out_rows_are_scored_in_a_table(csv: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(csv), "--hold-out", "n=4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("held out"))
    assert lines[at].split()[:4] == ["held", "out", "rows", "MAPE"]
    assert lines[at + 1].startswith("all rows") and lines[at + 1].count("%") == 7


def test_predictions_by_it_have_an_interval(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", "--fabric", "hgx-h100", "--calibration", str(made), "-b", "1M", "-e", "4M"]
    assert main([*words, "--timing", "library"]) == 0
    out = capsys.readouterr().out
    assert "expected" in out.splitlines()[0] and "note: expected: held" in out
    assert main([*words, "--timing", "library", "--json"]) == 0
    for point in json.loads(capsys.readouterr().out):
        interval = point["interval"]
        assert interval["low_us"] < point["time_us"] < interval["high_us"]
        assert 0 <= interval["coverage"] <= 1
        assert any(
            "h100_sxm" in c["source"] and str(made) in c["source"] for c in point["provenance"]
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--fabric", "hgx-a100"],
            "made on another system: h100_sxm (8 x H100 a host, NVSwitch, nccl)",
        ),
        (
            ["--fabric", "hgx-h100", "--backend", "gloo"],
            "--calibration: means something to NCCL only",
        ),
        (["--fabric", "lab-2x4"], "--calibration: means something to NCCL only"),
        (["--fabric", "host"], "--calibration: this host's cores calibrate themselves"),
    ],
)
def test_what_it_is_not_for_is_refused(
    made: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *words, "--calibration", str(made), "-b", "1M"]) == 2
    assert message in capsys.readouterr().err


def test_a_damaged_file_is_one_line(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(made.read_text().replace("gpus_per_host: 8", "gpus_per_host: eight"))
    words = ["predict", "--fabric", "hgx-h100", "--calibration", str(broken)]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 1 and "broken.yaml:" in err and "machine.gpus_per_host: 'eight'" in err
    )


def test_bad_words_and_files_exit_with_2(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (
        [str(tmp_path / "none.csv")],
        [str(csv), "--hold-out", "n=64"],
        [str(csv), "--system", "other"],
        [str(csv), "-o", str(csv)],
        [str(csv), "-o", str(tmp_path)],
    ):
        assert main(["calibrate", *words]) == 2, words
        assert "Traceback" not in capsys.readouterr().err


def test_a_file_is_scored_by_it_with_its_intervals(
    csv: Path, made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both.csv"
    others = "".join(
        f"a100_sxm,2.27.5,all_reduce,half,8,{1 << e},{10 + e}\n" for e in range(10, 20)
    )
    both.write_text(csv.read_text() + others)
    words = ["predict", "score", str(both), "--calibration", str(made)]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overall"]["n"] == 60 and found["overall"]["mape_pct"] < 3
    first, *groups = found["intervals"]
    assert first["group"] == "all rows" and first["n"] == 60 and first["held_pct"] > 80
    assert {"all_reduce", "all_gather", "<64 KiB"} <= {one["group"] for one in groups}
    assert any("10 points of other machines" in note for note in found["notes"])
    assert f"--calibration {made}" in found["worst"]["explain"]
    assert main(words) == 0
    assert "in their interval: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fabric", "hgx-a100"], "made on another system: h100_sxm (8 x H100 a host"),
        (["--one-latency"], "--one-latency: a calibration knows its machine's latency"),
    ],
)
def test_a_score_by_it_that_makes_no_sense_is_refused(
    csv: Path, made: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "score", str(csv), "--calibration", str(made), *words]) == 2
    assert message in capsys.readouterr().err


def test_without_a_calibration_no_row_has_an_interval(
    csv: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "score", str(csv), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["intervals"] == []
