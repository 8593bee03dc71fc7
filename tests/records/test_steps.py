"""steps.jsonl and the ranks' ledgers: what is written comes back, whatever a crash left."""

from __future__ import annotations

import gzip
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.core.stepping import Entry, Span, StepLedger, StepLine
from clusterlab.records.ledgers import (
    LedgerWriter,
    covered_by,
    ledger_path,
    ledger_ranks,
    read_ledger,
    write_collectives,
)
from clusterlab.records.lines import STEPS, LineWriter, read_lines

LINE = StepLine(0, 1, "2026-11-29T21:54:00Z", 4.25, 9.0, 1, 1.0, 2.0, 3.0, {"dp": 1.5}, 0.0, 1.0, 0.5,
                1 << 20, 7)  # fmt: skip
LEDGER = StepLedger(
    3, "n1", 1, 0, 12.5,
    (Span(0, "forward", 1, 0.5, 2.0), Span(0, "step", None, 0.0, 9.0)),
    (Entry(0, "all_reduce", "dp", (1, 3), 64, "float32", "reduce", None, 1.0, 2.0, 1.5),),
)  # fmt: skip


def write(folder: Path, *lines: StepLine) -> None:
    with LineWriter(folder / STEPS) as writer:
        for line in lines:
            writer.append(line)


def test_steps_come_back_in_order_and_the_latest_of_one_counts(tmp_path: Path) -> None:
    again = replace(LINE, attempt=2, step_us=8.0)
    write(tmp_path, LINE, replace(LINE, step=1, loss=None), again)
    assert read_lines(tmp_path).steps == (again, replace(LINE, step=1, loss=None))


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_crash_costs_the_line_in_flight(tmp_path: Path, cut: int) -> None:
    write(tmp_path, LINE, replace(LINE, step=1))
    file = tmp_path / STEPS
    file.write_bytes(file.read_bytes()[:-cut])
    write(tmp_path, replace(LINE, step=2))
    read = read_lines(tmp_path)
    # Without its newline alone the line is whole.
    assert [line.step for line in read.steps] == ([0, 1, 2] if cut == 1 else [0, 2])
    assert len(read.warnings) == (cut != 1)


def test_a_ledger_comes_back_and_a_torn_step_is_cut_off(tmp_path: Path) -> None:
    for step in (0, 1):
        with LedgerWriter(tmp_path, 3) as writer:
            writer.append(replace(LEDGER, step=step))
    path = ledger_path(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read_ledger(tmp_path, 3)) == [LEDGER]
    with LedgerWriter(tmp_path, 3) as writer:
        writer.append(replace(LEDGER, step=1, attempt=2))
    assert [(one.step, one.attempt) for one in read_ledger(tmp_path, 3)] == [(0, 1), (1, 2)]
    assert ledger_ranks(tmp_path) == [3]


def test_a_ledger_of_before_ends_were_told_apart_is_read(tmp_path: Path) -> None:
    with LedgerWriter(tmp_path, 3) as writer:
        writer.append(LEDGER)
    path = ledger_path(tmp_path, 3)
    data = json.loads(gzip.decompress(path.read_bytes()))
    for entry in data["entries"]:
        del entry["at_most"]
    path.write_bytes(gzip.compress(json.dumps(data).encode() + b"\n"))
    (read,) = read_ledger(tmp_path, 3)
    assert [entry.at_most for entry in read.entries] == [True]
    assert replace(read.entries[0], at_most=False) == LEDGER.entries[0]


@pytest.mark.parametrize("attempts", [(1, 1, 1), (1, 2, 2)])
def test_a_table_of_calls_says_which_steps_it_is_of(
    tmp_path: Path, attempts: tuple[int, ...]
) -> None:
    assert covered_by(tmp_path) == ""
    write_collectives(tmp_path, [])
    assert covered_by(tmp_path) == ""  # as before tables said so
    of = [replace(LEDGER, step=3 + i, attempt=attempt) for i, attempt in enumerate(attempts)]
    write_collectives(tmp_path, [], of)
    assert covered_by(tmp_path) == f"steps 3 to 5 of attempt {attempts[-1]}"


def test_a_field_of_another_type_is_named(tmp_path: Path) -> None:
    write(tmp_path, replace(LINE, exposed_us={"dp": "1"}))  # type: ignore[dict-item]
    with pytest.raises(UsageError, match=r"steps\.jsonl:1: exposed_us: dp"):
        read_lines(tmp_path)


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\xff\x17\x80", b"garbage", b"{}}", b'{"schema_version":1,"step":\xff', b'{"step": 1, "loss"',
     b'{"schema_version":1,"step":0,}'],
)  # fmt: skip
@pytest.mark.parametrize("after", [0, 1])
def test_a_complete_line_that_is_no_step_is_an_error_with_its_place(
    tmp_path: Path, garbage: bytes, after: int
) -> None:
    write(tmp_path, LINE)
    file = tmp_path / STEPS
    whole = file.read_bytes()
    file.write_bytes(whole + garbage + b"\n" + whole * after)
    with pytest.raises(UsageError, match=r"steps\.jsonl:2: not a line of this file"):
        read_lines(tmp_path)


@pytest.mark.parametrize("garbage", [b"\x00\xff\x17\x80", b"garbage", b'{"schema_version":1,"st'])
def test_what_nothing_ended_is_half_a_line_whatever_it_holds(
    tmp_path: Path, garbage: bytes
) -> None:
    write(tmp_path, LINE)
    file = tmp_path / STEPS
    file.write_bytes(file.read_bytes() + garbage)
    read = read_lines(tmp_path)
    assert read.steps == (LINE,)
    assert len(read.warnings) == 1


_AMOUNTS = [f.name for f in fields(StepLine) if f.name not in ("time_utc", "loss")]


@pytest.mark.parametrize("name", _AMOUNTS)
def test_an_amount_below_nothing_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    held = getattr(LINE, name)
    bad: Any = {"dp": -5.0} if isinstance(held, dict) else -5 if isinstance(held, int) else -5.0
    write(tmp_path, LINE, replace(LINE, **{"step": 1, name: bad}))
    with pytest.raises(UsageError, match=rf"steps\.jsonl:2: {name}"):
        read_lines(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["step_us", "loss", "predicted_us"])
def test_a_figure_that_is_not_finite_is_refused(tmp_path: Path, name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    write(tmp_path, replace(LINE, **changed))
    with pytest.raises(UsageError, match=rf"steps\.jsonl:1: {name}"):
        read_lines(tmp_path)
