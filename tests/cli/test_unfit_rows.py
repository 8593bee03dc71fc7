"""Rows that are missing, twice, wrong or of no time: no command that judges runs passes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusterlab.cli.main import main
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.records.documents import write_placement
from tests.records.fake_runs import make_run
from tests.verdict.test_reproduce import again
from tests.verdict.test_steady import steady_rows

Data = dict[str, Any]
POINTS = 32
TIMES = ("time_us_loop", "time_us_p50", "p50_low_us", "p50_high_us")


def a_run(root: Path, seed: int) -> Path:
    rows = again(steady_rows(POINTS), noise=0.004, seed=seed)
    run = make_run(root, rows, planned_points=POINTS)
    write_placement(run.path, Placement((RankPlacement(0, "n0", 0), RankPlacement(1, "n0", 1))))
    return run.path


def damaged(path: Path, damage: Callable[[list[Data]], list[Data]]) -> None:
    file = path / "records.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in damage(rows)))


def timed_as(value: object) -> Callable[[list[Data]], list[Data]]:
    return lambda rows: [
        {**row, **dict.fromkeys(TIMES, value)} if i % 3 else row for i, row in enumerate(rows)
    ]


DAMAGES: dict[str, Callable[[list[Data]], list[Data]]] = {
    "half of the rows": lambda rows: rows[::2],
    "one row": lambda rows: rows[:1],
    "no row": lambda rows: [],
    "half of them twice": lambda rows: rows[::2] + rows[::2],
    "a time of 0": timed_as(0.0),
    "a negative time": timed_as(-5.0),
    "NaN": timed_as("NaN"),
    "for ever": timed_as("Infinity"),
    "longer than any call": timed_as(1e300),
    "twice, with other figures": lambda rows: [
        *rows,
        {**rows[0], "time_us_p50": 3 * rows[0]["time_us_p50"], "time_us_loop": 1e3},
    ],
    "wrong data": lambda rows: [{**rows[0], "wrong": 7}, *rows[1:]],
}
REFUSED = ("a negative time", "longer than any call")
"""Figures that none can be are refused with their line on reading; the others are judged."""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("command", ["compare", "baseline check", "runs reproduce"])
def test_what_rows_lack_is_never_a_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, damage: str
) -> None:
    first, second = a_run(tmp_path, 1), a_run(tmp_path, 2)
    words: list[object] = [first, second]
    if command == "baseline check":
        saved = tmp_path / "b.yaml"
        assert main(["baseline", "save", str(first), "-o", str(saved)]) == 0
        words = [second, saved]
    typed = [*command.split(), *map(str, words)]
    assert main(typed) == 0, "fine as long as it is whole"
    damaged(second, DAMAGES[damage])
    capsys.readouterr()
    code = main(typed)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    if damage in REFUSED:
        assert code == 2 and "records.jsonl:2: time_us_" in shown.err
        return
    assert shown.out and code in ({1} if damage == "wrong data" else {1, 3})


def test_a_run_is_no_repeat_of_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(a_run(tmp_path, 1))
    assert main(["runs", "reproduce", run, run, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["outcome"] == "no_verdict" and "given twice" in found["reason"]


def test_a_file_is_not_compared_with_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = a_run(tmp_path, 1) / "records.jsonl"
    (tmp_path / "alone.jsonl").write_bytes(alone.read_bytes())
    words = [str(tmp_path / "alone.jsonl")] * 2
    assert main(["compare", *words, "--json"]) == 3
    assert "given twice" in capsys.readouterr().out


def test_json_holds_no_nan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = a_run(tmp_path, 1), a_run(tmp_path, 2)
    odd = dict.fromkeys(("cv", "gpu_clock_mhz", "predicted_time_us", "algbw_GBps"), "NaN")
    damaged(second, lambda rows: [{**row, **odd} for row in rows])
    for command in (["compare"], ["baseline", "check"], ["runs", "reproduce"]):
        main([*command, str(first), str(second), "--json"])
        out = capsys.readouterr().out
        assert json.loads(out, parse_constant=pytest.fail), command


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (1e9, 1e10), (0.0, 0.0), (None, 1.0)])
def test_an_interval_that_does_not_hold_its_median_is_none(
    tmp_path: Path, low: float | None, high: float | None
) -> None:
    first, second = a_run(tmp_path, 1), a_run(tmp_path, 2)
    damaged(second, lambda rows: [{**r, "p50_low_us": low, "p50_high_us": high} for r in rows])
    assert main(["compare", str(first), str(second)]) in {0, 3}
