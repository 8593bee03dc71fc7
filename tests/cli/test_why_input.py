"""``clusterlab why``: what may be named, and what is typed wrongly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.formats.measured.examples import BANNER, devices, table
from tests.runs.why_runs import SIZES, why_run
from tests.verdict.why.systems import points_of


def test_records_of_a_run_are_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = why_run(tmp_path, {size: 20 + size / 1e5 for size in SIZES})
    code = main(["why", str(run), "--json"])
    from_run = json.loads(capsys.readouterr().out)
    assert main(["why", str(run / "records.jsonl"), "--json"]) == code
    assert json.loads(capsys.readouterr().out) == from_run


def test_records_without_their_run_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = why_run(tmp_path, {size: 20 + size / 1e5 for size in SIZES})
    alone = tmp_path / "records.jsonl"
    alone.write_bytes((run / "records.jsonl").read_bytes())
    assert main(["why", str(alone)]) == 2
    assert "rows without their run" in capsys.readouterr().err


@pytest.mark.parametrize("version", ["9.9", "3.0.1", "2.99.1"])
def test_a_release_that_nobody_knows_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    run = why_run(tmp_path, {size: 20 + size / 1e5 for size in SIZES})
    assert main(["why", str(run), "--nccl-version", version]) == 2
    err = capsys.readouterr().err
    assert "--nccl-version" in err and version in err and "newest known" in err


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_table_of_a_log_without_devices_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: int
) -> None:
    named = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    path = tmp_path / "run.log"
    path.write_text(named * before + table("all_reduce", 8))
    line = named.count("\n") * before + 3
    assert main(["why", str(path)]) == 2
    err = capsys.readouterr().err
    assert f"{path}:{line}: table {before + 1}: neither system nor gpu" in err and "--gpu" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["why", "x", "--causes", "0"], "expected at least 1"),
        (["why", "x", "--causes", "31"], "expected at most 30"),
        (["why", "x", "--causes", "some"], "expected a whole number"),
        (["import", "x", "--ranks", "0"], "expected at least 1"),
        (["p2p", "-T", "long"], "expected a number"),
    ],
    ids=str,
)
def test_a_value_out_of_range_is_said_in_plain_words(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert main(words) == 2
    err = capsys.readouterr().err
    assert said in err and words[-2] in err and "Input" not in err


@pytest.mark.parametrize("system", ["h100-8", "h100-2x8"])
@pytest.mark.parametrize("factor", [1.3, 1.6, 2.2, 4.0])
def test_the_evidence_of_a_good_fit_is_near_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], system: str, factor: float
) -> None:
    """A cause's time is the one of the curve whose fit is told beside it."""
    from dataclasses import replace

    from tests.runs.test_why import csv_of

    points = [replace(p, time_us=p.time_us * factor) for p in points_of(system)]
    path = csv_of(tmp_path / "m.csv", {"t": points}, lambda _: ("", "", ""))
    main(["why", str(path), "--json"])
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    looked_at = 0
    for one in table["hypotheses"]:
        told = re.search(r": ([\d.e+]+) (ms|µs) \(.* measured ([\d.e+]+) (ms|µs)", one["evidence"])
        if told is None or one["fit"] > 1.15 or "but for" in one["evidence"]:
            continue
        looked_at += 1
        units = {"µs": 1.0, "ms": 1e3}
        ratio = float(told[3]) * units[told[4]] / (float(told[1]) * units[told[2]])
        assert 1 / 1.3 < ratio < 1.3, one["evidence"]
    assert looked_at or factor < 1.5
