"""Many lines at once give what each gives by itself: the same rows, the same warnings, the same refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Row
from clusterlab.records import store
from clusterlab.records.fast_rows import rows_of_lines
from clusterlab.records.schema import row_to_line
from tests.records.fake_runs import fake_rows, points, renamed

ROWS = fake_rows(points(["all_reduce"]))
LINE = row_to_line(ROWS[0]).rstrip(b"\n")


def changed(**values: Any) -> bytes:
    data = {**json.loads(LINE), **values}
    return json.dumps({k: v for k, v in data.items() if v != "gone"}).encode()


LINES = [
    *(row_to_line(row).rstrip(b"\n") for row in ROWS),
    row_to_line(renamed(ROWS[1], ranks=(0, 3))).rstrip(b"\n"),
    row_to_line(renamed(ROWS[1], wrong_got=float("nan"), busbw_GBps=float("inf"))).rstrip(b"\n"),
    changed(time_us_loop=7),  # a whole number where others have fractions
    changed(schema_version=3, predicted_doubt="gone"),
    json.dumps(dict(reversed(json.loads(LINE).items()))).encode(),
    LINE.replace(b'"all_reduce"', b'"all{reduce"'),
    LINE + b"\r",
    LINE[: len(LINE) // 2],
    LINE[: LINE.index(b"}") - 40] + b"}",
    b"",
    b"\0\0\0",
    b"{}",
    b"[1, 2]",
    changed(schema_version=99),
    changed(time_us_loop=-1.0),
    changed(time_us_p50="-Infinity"),
    changed(time_us_p50="NaN"),
    changed(busbw_GBps=1e31),
    changed(busbw_GBps=10**400),
    changed(requested_bytes=1 << 63),
    changed(requested_bytes=10**400),
    changed(wrong_index=-(1 << 64)),
    changed(attempt=-1),
    changed(ratio="Infinity"),
    changed(cv=float("nan")),
    changed(schema_version=True),
    changed(ranks=["0"]),
    changed(ranks=[]),
    changed(ranks=[-1, 2]),
    changed(ranks=[0, 10**400]),
    changed(collective=1),
    changed(collective="gone"),
    changed(colective="x"),
    # Two lines that are objects only together.
    b'{"schema_version":4,"a":[1',
    b"2]}",
    LINE + b"," + LINE,
]


def one_by_one(content: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(store, "rows_of_lines", lambda *_, **__: None)
        return outcome(content)


def outcome(content: bytes) -> Any:
    try:
        read = store.parse_records(content, where="f")
    except UsageError as error:
        return str(error)
    rows = [[repr(getattr(row, name)) for name in Row.__dataclass_fields__] for row in read.rows]
    return rows, read.truncated_tail, read.warnings, read.schemas


@given(
    some=st.lists(st.sampled_from(LINES), max_size=12),
    ended=st.booleans(),
    together=st.sampled_from([1, 2000, 5000, 1 << 20]),
)
@settings(max_examples=300, deadline=None)
def test_lines_together_are_what_they_are_alone(
    some: list[bytes], ended: bool, together: int
) -> None:
    content = b"\n".join(some) + (b"\n" if ended else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "TOGETHER_BYTES", together)
        assert outcome(content) == one_by_one(content, patch)


def test_whole_lines_take_the_fast_way() -> None:
    lines = [row_to_line(row) for row in ROWS]
    assert rows_of_lines(b"".join(lines), where="f", first=1) == ROWS
    assert rows_of_lines(b"".join([*lines, LINE[:-1] + b"\n"]), where="f", first=1) is None


def test_a_refused_line_is_named_by_its_number() -> None:
    wrong = row_to_line(renamed(ROWS[0], collective=1))
    with pytest.raises(UsageError, match=r"f:7: collective"):
        rows_of_lines(row_to_line(ROWS[0]) * 2 + wrong, where="f", first=5)
