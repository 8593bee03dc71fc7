"""Figures that no measurement gives never become rows, whatever the file, and are named."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.measured.file import MeasuredFile
from clusterlab.formats.measured.json_files import read_inspector, read_nccl_tests_json
from clusterlab.formats.measured.log import read_log
from clusterlab.formats.measured.plausible import (
    LONGEST_US,
    SHORTEST_US,
    FASTEST_GBps,
    doubt,
    named,
)
from tests.formats.measured.examples import (
    BANNER,
    CLOSING,
    HEADER,
    SIZES,
    devices,
    inspector,
    json_file,
    table,
)

NO_TIMES = [
    math.nan,
    -1.0,
    -math.inf,
    math.inf,
    0.0,
    1e-300,
    SHORTEST_US / 2,
    LONGEST_US * 2,
    1e300,
]


@pytest.mark.parametrize("time_us", NO_TIMES)
def test_no_call_takes_such_a_time(time_us: float) -> None:
    assert doubt(time_us) is not None


@given(
    st.floats(SHORTEST_US, LONGEST_US),
    st.none() | st.floats(0, FASTEST_GBps),
    st.none() | st.floats(0, 2 * FASTEST_GBps),
)
def test_what_may_have_been_measured_is_left_alone(
    time_us: float, busbw: float | None, algbw: float | None
) -> None:
    assert doubt(time_us, busbw, algbw) is None


@pytest.mark.parametrize("figure", [math.nan, -1.0, math.inf, 1e9])
def test_no_link_has_such_a_bandwidth(figure: float) -> None:
    assert doubt(100.0, figure, 1.0) is not None
    assert doubt(100.0, 1.0, figure) is not None


def test_a_rank_alone_may_take_no_time_to_speak_of_but_not_none() -> None:
    assert doubt(0.03, 9e6, moves=False) is None
    assert doubt(0.0, moves=False) is not None


def _text(halves: list[tuple[float, float]]) -> MeasuredFile:
    """A log whose rows begin in line 12: sizes of 1 MiB, halves of (time, busbw)."""
    rows = "".join(
        f"{1 << 20:12d} {1 << 18:12d}    float     sum      -1  "
        + "  ".join(f"{t:7.2f} {b / 1.75:7.2f} {b:7.2f}      0" for t, b in halves[at : at + 2])
        + "\n"
        for at in range(0, len(halves), 2)
    )
    text = BANNER + devices(1, 8) + HEADER + rows + CLOSING
    return read_log(text.splitlines(), file="x")


def _results(halves: list[tuple[float, float]]) -> MeasuredFile:
    document = json.loads(json_file())
    document["results"] = [
        {
            **document["results"][0],
            **{
                name: {"time": t, "alg_bw": b / 1.75, "bus_bw": b, "nwrong": 0.0}
                for name, (t, b) in zip(("out_of_place", "in_place"), halves[at : at + 2], strict=True)
            },
        }
        for at in range(0, len(halves), 2)
    ]  # fmt: skip
    return read_nccl_tests_json(json.dumps(document), file="x")


def _records(halves: list[tuple[float, float]]) -> MeasuredFile:
    lines = []
    for time_us, busbw in halves:
        record = inspector()
        record["coll_perf"].update(  # type: ignore[attr-defined]
            coll_exec_time_us=time_us, coll_algobw_gbs=busbw / 1.75, coll_busbw_gbs=busbw
        )
        lines.append(json.dumps(record))
    return read_inspector(lines, file="x")


GOOD = (100.0, 18.35)
BAD = [
    (0.0, 0.0),
    (0.0, 18.35),
    (0.01, 18.35),
    (9e9, 0.0),
    (100.0, 5000.0),
    (-5.0, 18.35),
    (100.0, -1.0),
]
BAD += [(math.nan, 18.35), (math.inf, 18.35), (100.0, math.nan), (100.0, math.inf)]


@pytest.mark.parametrize("read", [_text, _results, _records])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("at", range(4))
def test_such_figures_are_no_rows_and_are_named_with_their_line(
    read: object, bad: tuple[float, float], at: int
) -> None:
    halves = [GOOD] * 4
    halves[at] = bad
    file = read(halves)  # type: ignore[operator]
    assert len(file.rows) == 3 and {row.time_us for row in file.rows} == {100.0}
    (finding,) = [f for f in file.findings if f.code == "rows_unusable"]
    first = {_text: 14, _results: 1, _records: 1}[read]  # type: ignore[index]
    line = first + (at if read is _records else at // 2)
    word = "result" if read is _results else "line"
    assert f"{word} {line}: a " in finding.evidence[0]
    with pytest.raises(UsageError, match=rf"no row was measured.*{word} {first}: a"):
        read([bad] * 4)  # type: ignore[operator]


@pytest.mark.parametrize("figure", ["nan", "-5.00", "inf", "-inf"])
def test_a_time_that_is_no_number_drops_its_row_and_names_the_line(figure: str) -> None:
    text = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.split()[:1] == [str(SIZES[1])])
    words = lines[at].split()
    lines[at] = " ".join([*words[:5], figure, *words[6:9], figure, *words[10:]])
    file = read_log(lines, file="x")
    assert SIZES[1] not in {row.size_bytes for row in file.rows}
    assert len(file.rows) == 2 * (len(SIZES) - 1)
    assert any(f"line {at + 1}" in e for f in file.findings for e in f.evidence)


def test_of_many_the_first_few_are_shown() -> None:
    text = named([(at, "a time of 0") for at in range(1, 9)])
    assert text.count("a time of 0") == 4 and text.endswith("…")
