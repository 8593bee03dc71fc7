"""The record store keeps every finished row, whatever ends the run."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.core.rows import Row, row_to_json
from clusterlab.records.schema import row_from_data, row_to_line
from clusterlab.records.store import RecordWriter, latest_rows, parse_records, read_records
from tests.records.fake_runs import fake_rows, points, renamed

ROWS = fake_rows(points(["all_reduce", "send_recv"]))
LINES = [row_to_line(row) for row in ROWS]
CONTENT = b"".join(LINES)

numbers = st.floats(allow_nan=True, allow_infinity=True)
times = st.floats(0, 1e30) | st.sampled_from((math.nan, math.inf))


def same(a: Row, b: Row) -> bool:
    """Equal, with NaN equal to NaN."""
    return repr(a) == repr(b)


@given(cut=st.integers(0, len(CONTENT)))
def test_a_file_truncated_at_any_byte_still_reads_every_complete_row(cut: int) -> None:
    read = parse_records(CONTENT[:cut], where="records.jsonl")
    ends = [sum(map(len, LINES[: i + 1])) for i in range(len(LINES))]
    # A row is complete once its closing brace is there, with or without the newline behind it.
    complete = sum(end - 1 <= cut for end in ends)
    assert read.rows == tuple(ROWS[:complete])
    assert read.truncated_tail == (cut not in (0, *ends) and cut + 1 not in ends)
    assert len(read.warnings) == read.truncated_tail


@given(cut=st.integers(0, len(CONTENT)))
@settings(max_examples=60, deadline=None)
def test_a_resumed_file_glues_no_row_to_a_torn_line(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("torn") / "records.jsonl"
    path.write_bytes(CONTENT[:cut])
    before = read_records(path).rows
    with RecordWriter(path) as writer:
        writer.append(ROWS[0])
        writer.append(ROWS[1])
    after = read_records(path)
    assert after.rows == (*before, ROWS[0], ROWS[1])
    assert not after.truncated_tail


@given(
    time=times,
    got=st.none() | numbers,
    wrong=st.none() | st.integers(0, 2**63 - 1),
    text=st.text(max_size=20),
)
def test_any_values_come_back_as_they_were(
    time: float, got: float | None, wrong: int | None, text: str
) -> None:
    row = renamed(ROWS[0], time_us_loop=time, wrong_got=got, wrong=wrong, bottleneck=text)
    line = row_to_line(row)
    assert line.count(b"\n") == 1
    assert same(row_from_data(json.loads(line), where="x"), row)


def test_lines_are_strict_json_even_for_a_wrong_element_that_is_not_a_number() -> None:
    line = row_to_line(renamed(ROWS[0], wrong_got=math.nan, wrong_expected=-math.inf))

    def refuse(word: str) -> None:
        raise AssertionError(word)

    data = json.loads(line, parse_constant=refuse)
    assert (data["wrong_got"], data["wrong_expected"]) == ("NaN", "-Infinity")


def test_a_tail_of_zeros_after_a_power_cut_hides_nothing() -> None:
    read = parse_records(LINES[0] + b"\0" * 512, where="x")
    assert read.rows == (ROWS[0],)
    torn_then_resumed = LINES[0] + LINES[1][:50] + b"\0" * 99 + b"\n" + LINES[2]
    read = parse_records(torn_then_resumed, where="x")
    assert read.rows == (ROWS[0], ROWS[2])
    assert "x:2" in read.warnings[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"busbw_gbps": 1.0}, "unknown key 'busbw_gbps'.*did you mean 'busbw_GBps'"),
        ({"size_bytes": "4K"}, "size_bytes: '4K'; expected a whole number"),
        ({"in_place": 1}, "in_place: 1; expected true or false"),
        ({"op": 3}, "op: 3; expected a string or null"),
        ({"time_us_loop": None}, "time_us_loop: None; expected a number"),
        ({"schema_version": 99}, "written by a newer clusterlab"),
        ({"schema_version": "1"}, "schema_version '1'"),
        ({"schema_version": True}, "schema_version True"),
    ],
)
def test_a_complete_line_of_another_schema_is_refused_by_line_and_field(
    change: dict[str, object], message: str
) -> None:
    bad = json.dumps({**json.loads(LINES[1]), **change}).encode()
    with pytest.raises(UsageError, match=message) as caught:
        parse_records(LINES[0] + bad + b"\n", where="run/records.jsonl")
    assert str(caught.value).startswith("run/records.jsonl:2")


def test_a_missing_field_is_named() -> None:
    data = json.loads(LINES[0])
    del data["busbw_GBps"], data["schema_version"]
    with pytest.raises(UsageError, match="lacks schema_version"):
        row_from_data(data, where="x")
    with pytest.raises(UsageError, match="lacks busbw_GBps"):
        row_from_data({"schema_version": 1, **data}, where="x")


@pytest.mark.parametrize("content", [b"not a record\n", b"\x7fELF\x02\x01", b"size,count\n8,2\n"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="holds no row that can be read"):
        read_records(path)


@pytest.mark.parametrize("content", [b"[1, 2]\n", b"3\n", b'"row"\n'])
def test_json_that_is_no_row_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match="not a mapping"):
        parse_records(content, where="x")


def test_a_run_without_rows_reads_as_empty_and_a_missing_file_does_not(tmp_path: Path) -> None:
    assert read_records(tmp_path).rows == ()
    (tmp_path / "records.jsonl").touch()
    assert read_records(tmp_path).rows == ()
    with pytest.raises(UsageError, match="no such file"):
        read_records(tmp_path / "elsewhere.jsonl")


def test_a_first_row_torn_twice_is_a_half_written_run_and_no_error() -> None:
    read = parse_records(LINES[0][:40] + b"\n" + LINES[0][:60], where="x")
    assert read.rows == ()
    assert len(read.warnings) == 2


def test_a_full_disk_is_one_clear_error_and_loses_nothing_written(tmp_path: Path) -> None:
    """The kernel cuts the file off within a row, as a full disk does."""
    path = tmp_path / "records.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RecordWriter(path) as writer:
        writer.append(ROWS[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINES[0]) + 100, hard))
        try:
            with pytest.raises(StorageError, match=r"records\.jsonl.*free some space"):
                writer.append(ROWS[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.stat().st_size == len(LINES[0]) + 100
        assert read_records(path).rows == (ROWS[0],)
        writer.append(ROWS[2])  # someone made room
    assert read_records(path).rows == (ROWS[0], ROWS[2])


def test_a_really_full_file_system_keeps_every_acknowledged_row(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        kept = 0
        with (
            RecordWriter(tmp_path / "records.jsonl") as writer,
            pytest.raises(StorageError) as caught,
        ):
            for _ in range(1000):
                writer.append(ROWS[0])
                kept += 1
        assert "No space left on device" in str(caught.value)
        assert caught.value.exit_code == 1
        assert kept > 10
        assert len(read_records(tmp_path / "records.jsonl").rows) == kept
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_directory_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        RecordWriter(tmp_path / "gone" / "records.jsonl")


def test_a_killed_writer_leaves_every_row_it_acknowledged(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from clusterlab.records.store import RecordWriter
        from tests.records.fake_runs import fake_rows, points
        rows = fake_rows(points(["all_reduce"]))
        writer = RecordWriter(Path(sys.argv[1]))
        while True:
            for row in rows:
                writer.append(row)
                print(flush=True)
    """)
    path = tmp_path / "records.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    acknowledged = sum(1 for _ in zip(range(50), child.stdout, strict=False))
    child.send_signal(signal.SIGKILL)
    rest, _ = child.communicate(timeout=30)
    acknowledged += rest.count(b"\n")
    assert acknowledged >= 50
    assert len(read_records(path).rows) in (acknowledged, acknowledged + 1)


def test_the_latest_row_of_a_point_wins_in_order_of_first_sight() -> None:
    first, second = ROWS[0], ROWS[1]
    again = dataclasses.replace(first, attempt=2, time_us_loop=1.0)
    stale = dataclasses.replace(second, attempt=1, time_us_loop=9.0)
    second = dataclasses.replace(second, attempt=2)
    latest = latest_rows([first, second, again, stale])
    assert latest.rows == (again, second)
    assert latest.superseded == 2
    same_attempt = dataclasses.replace(first, time_us_loop=2.0)
    assert latest_rows([first, same_attempt]).rows == (same_attempt,)


def test_points_that_differ_in_any_part_are_kept_apart() -> None:
    rng = random.Random(4)
    rows = fake_rows(points(dtypes=["float32", "int8"], ops=["sum", "max"]), seed=rng.random())
    latest = latest_rows(rows)
    assert latest.superseded == 0
    assert [row_to_json(r) for r in latest.rows] == [row_to_json(r) for r in rows]
    assert len(latest_rows([rows[0], dataclasses.replace(rows[0], backend="nccl")]).rows) == 2
