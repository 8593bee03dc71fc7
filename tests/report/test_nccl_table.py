"""nccl-tests' table: the same bytes where nccl-tests prints the same, readable by what reads it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.placement import Placement, RankPlacement, local_placement
from clusterlab.core.rows import Row
from clusterlab.formats.nccl_tests import parse_nccl_tests
from clusterlab.formats.nccl_tests_lines import Options, read_line
from clusterlab.report.console.nccl_table import (
    TableOptions,
    format_number,
    header_lines,
    options_of,
    preamble,
    table_line,
)
from clusterlab.report.console.nccl_table_writer import TableWriter
from tests.records.fake_runs import fake_rows, points, renamed
from tests.support import shared_dir

OPTIONS = TableOptions(8, 1 << 26, 4, False, 5, 20, True)


def printed(rows: list[Row], **options: object) -> list[str]:
    lines: list[str] = []
    table = TableWriter(lines.append, **options)  # type: ignore[arg-type]
    for row in rows:
        table.add(row)
    table.finish()
    return lines


def data_lines(lines: list[str]) -> list[list[str]]:
    """What CloudAI keeps of a log: lines that begin with a digit once stripped."""
    return [line.split() for line in lines if re.match(r"\s*\d", line)]


def real_logs() -> list[Path]:
    measured = shared_dir() / "measured" / "h200x2"
    return [
        measured / "nccl_tests_all_reduce_cudagraph.txt",
        measured / "nccl_tests_other_collectives.txt",
    ]


def test_header_lines_are_those_of_nccl_tests_byte_for_byte() -> None:
    for log in real_logs():
        assert "\n".join(header_lines(strict=True)) in log.read_text()


def test_data_lines_are_those_of_nccl_tests_byte_for_byte() -> None:
    """Every line of real logs comes out again from the figures in it."""
    seen = 0
    row = fake_rows(points(["all_reduce"]))[0]
    types = {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "int8": "int8"}
    for log in real_logs():
        for line in log.read_text().splitlines():
            if not re.match(r"\s*\d", line):
                continue
            t = line.split()
            common = {
                "size_bytes": int(t[0]),
                "count": int(t[1]),
                "dtype": types[t[2]],
                "op": None if t[3] == "none" else t[3],
                "root": None if t[4] == "-1" else int(t[4]),
            }
            halves = [
                renamed(
                    row,
                    **common,
                    in_place=in_place,
                    time_us_loop=float(half[0]),
                    algbw_GBps=float(half[1]),
                    busbw_GBps=float(half[2]),
                    wrong=None if half[3] == "N/A" else int(half[3]),
                )
                for in_place, half in ((False, t[5:9]), (True, t[9:13]))
            ]
            assert table_line(halves[0], halves[1], strict=True) == line
            seen += 1
    assert seen > 80


def test_footer_and_preamble_have_the_shape_of_nccl_tests() -> None:
    text = real_logs()[0].read_text()
    rows = fake_rows(points(["all_reduce"]))
    gpus = Placement(
        tuple(
            RankPlacement(r, "vm", r, gpu=f"0000:00:0{6 + r}", gpu_name="NVIDIA H200")
            for r in range(2)
        )
    )
    above = preamble("all_reduce", OPTIONS, gpus, versions="clusterlab 0", pids=[1554, 1554])
    for line in (*above[1:2], *above[3:], *printed(rows, strict=True)[-5:-4]):
        assert f"{line}\n" in text
    assert re.sub(r"\d+", "N", above[2]) == re.sub(
        r"\d+", "N", text.splitlines()[2].replace("nGpus 2", "nGpus 1")
    )
    tail = [re.sub(r"[\d.]+", "N", line) for line in printed(rows, strict=True)[-5:]]
    assert tail == [re.sub(r"[\d.]+", "N", line) for line in text.splitlines()[-6:-1]]


def test_strict_lines_have_thirteen_tokens_and_others_three_more() -> None:
    rows = fake_rows(points())
    assert {len(t) for t in data_lines(printed(rows, strict=True))} == {13}
    assert {len(t) for t in data_lines(printed(rows))} == {16}
    assert [t[:13] for t in data_lines(printed(rows))] == data_lines(printed(rows, strict=True))


def test_model_columns_are_predicted_bound_and_ratio() -> None:
    row = renamed(
        fake_rows(points(["all_reduce"]))[0],
        predicted_busbw_GBps=312.456,
        bound_busbw_GBps=450.0,
        ratio=0.974,
    )
    assert table_line(row, None, strict=False).split()[-3:] == ["312.46", "450.00", "0.97"]
    unpredicted = renamed(row, predicted_busbw_GBps=None, bound_busbw_GBps=None, ratio=None)
    assert table_line(unpredicted, None, strict=False).split()[-3:] == ["-", "-", "-"]


def test_titles_stand_above_their_columns() -> None:
    titles = header_lines(strict=False)[2]
    line = table_line(*fake_rows(points(["all_reduce"]))[:2], strict=False)
    ends = [m.end() for m in re.finditer(r"\S+", titles)][1:]  # without the "#"
    assert ends == [m.end() for m in re.finditer(r"\S+", line)]


def test_a_line_appears_when_both_halves_are_there_in_either_order() -> None:
    lines: list[str] = []
    table = TableWriter(lines.append)
    out_of_place, in_place = fake_rows(points(["all_reduce"]))[:2]
    table.add(in_place)
    assert data_lines(lines) == []
    table.add(out_of_place)
    (tokens,) = data_lines(lines)
    assert float(tokens[5]) == pytest.approx(out_of_place.time_us_loop, abs=0.01)
    assert float(tokens[9]) == pytest.approx(in_place.time_us_loop, abs=0.01)


def test_all_out_of_place_rows_first_still_make_whole_lines() -> None:
    rows = fake_rows(points(["all_reduce"]))
    reordered = [r for r in rows if not r.in_place] + [r for r in rows if r.in_place]
    assert data_lines(printed(reordered)) == data_lines(printed(rows))


@pytest.mark.parametrize("in_place", [False, True])
def test_one_place_only_prints_at_once_and_keeps_thirteen_tokens(in_place: bool) -> None:
    lines: list[str] = []
    table = TableWriter(lines.append, strict=True, places=[in_place])
    row = fake_rows(points(["all_reduce"]))[in_place]
    table.add(row)
    (tokens,) = data_lines(lines)
    assert len(tokens) == 13
    absent = tokens[5:9] if in_place else tokens[9:13]
    # Every parser reads the number columns with float(); #wrong is N/A in nccl-tests too.
    assert all(math.isnan(float(t)) for t in absent[:3])
    assert absent[3] == "N/A"


def test_a_half_that_never_came_is_printed_at_the_end() -> None:
    rows = fake_rows(points(["all_reduce"]))[:3]
    tokens = data_lines(printed(rows))
    assert [t[9] == "nan" for t in tokens] == [False, True]


def test_the_same_half_twice_loses_neither() -> None:
    row = fake_rows(points(["all_reduce"]))[0]
    assert len(data_lines(printed([row, row]))) == 2


def test_every_collective_has_its_own_table_under_nccl_tests_names() -> None:
    rows = fake_rows(points(["all_to_all", "send_recv", "broadcast"], dtypes=["float16"]))
    lines = printed(
        rows,
        preamble=lambda r: preamble(r.collective, OPTIONS, local_placement(4, "h"), versions="v"),
    )
    starts = [line.split()[-1] for line in lines if "starting" in line]
    assert starts == ["alltoall_perf", "sendrecv_perf", "broadcast_perf"]
    assert [line.split()[-1] for line in lines if "concluded" in line] == starts
    tokens = data_lines(lines)
    assert {(t[2], t[3], t[4]) for t in tokens} == {("half", "none", "-1"), ("half", "none", "0")}


def test_wrong_elements_fail_the_footer_and_unchecked_ones_are_said() -> None:
    rows = fake_rows(points(["all_reduce"]))
    bad = [renamed(rows[0], wrong=3), *rows[1:]]
    assert "# Out of bounds values : 3 FAILED" in printed(bad)
    unchecked = [renamed(row, wrong=None) for row in rows]
    lines = printed(unchecked)
    assert "# Out of bounds values : 0 OK" in lines
    assert "# Data not checked     : 16 measurements" in lines
    assert {t[8] for t in data_lines(lines)} == {"N/A"}


def test_the_average_is_over_every_measurement() -> None:
    rows = fake_rows(points(["all_reduce"]))
    (line,) = [line for line in printed(rows) if "Avg bus bandwidth" in line]
    average = sum(r.busbw_GBps for r in rows) / len(rows)
    assert float(line.split(":")[1]) == pytest.approx(average, rel=1e-5)


def test_no_rows_print_nothing() -> None:
    assert printed([]) == []


def test_a_hostile_host_name_stays_on_its_line() -> None:
    evil = local_placement(1, "h\n8 2 float\x1b[2J\u202eost")
    lines = preamble("all_reduce", OPTIONS, evil, versions="v\n# x")
    assert all("\n" not in line and "\x1b" not in line and "\u202e" not in line for line in lines)


@pytest.mark.parametrize(
    ("value", "width", "text"),
    # C's printf on getFloatStr's rules: figures from real logs, and the edges of its ranges.
    [
        (0.0, 6, "  0.00"),
        (6.654, 7, "   6.65"),
        (1039.08, 7, "1039.08"),
        (15749, 7, "15749.0"),
        (158123.4, 7, " 158123"),
        (1553042.0, 7, "1553042"),
        (15530420.0, 7, "1.6e+07"),
        (1234.5, 6, "1234.5"),
        (123456.0, 6, "123456"),
        (1234567.0, 6, " 1e+06"),
    ],
)
def test_numbers_fit_their_columns_as_in_nccl_tests(value: float, width: int, text: str) -> None:
    assert format_number(value, width) == text


@given(st.floats(0, 1e15), st.sampled_from([6, 7]))
def test_any_number_fits_and_reads_back(value: float, width: int) -> None:
    text = format_number(value, width)
    assert len(text) == width
    # One digit of mantissa at worst; below 0.005 nccl-tests prints 0.00.
    assert float(text) == pytest.approx(value, rel=0.5 if value > 1e5 else 0.01, abs=0.0051)


def per_iteration_header() -> list[str]:
    """The formats of nccl-tests 2.19 for -I 1 (src/util.cu, writeResultHeader), filled as it does."""
    left = "# %10s  %12s  %8s  %6s  %6s"
    half = "  %7s  %6s  %6s  %6s  %7s  %7s  %7s  %7s"
    blank = left % ("", "", "", "", "")
    titles = ("time", "algbw", "busbw", "#wrong", "i_min", "i_max", "i_p99", "i_cv%")
    units = ("(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(%)")
    return [
        f"{blank}              out-of-place (+ per-iteration)                                "
        "in-place (+ per-iteration)",
        left % ("size", "count", "type", "redop", "root") + half % titles * 2 + " ",
        left % ("(B)", "(elements)", "", "", "") + half % units * 2 + " ",
    ]


def test_per_iteration_columns_are_those_of_nccl_tests() -> None:
    assert header_lines(strict=True, per_iteration=True)[1:] == per_iteration_header()
    rows = [
        renamed(row, time_us_p99=row.time_us_max * 0.99, cv=0.1234)
        for row in fake_rows(points(["all_reduce"], sizes=[1024]))
    ]
    (tokens,) = data_lines(printed(rows, strict=True, per_iteration=True))
    assert len(tokens) == 21
    (more,) = data_lines(printed(rows, per_iteration=True))
    assert more[:21] == tokens and len(more) == 24
    for row, half in zip(rows, (tokens[5:13], tokens[13:21]), strict=True):
        figures = [row.time_us_min, row.time_us_max, row.time_us_p99 or 0.0, 12.34]
        assert [float(t) for t in half[4:]] == pytest.approx(figures, abs=0.06)


@pytest.mark.parametrize("strict", [True, False])
def test_a_table_with_per_iteration_columns_is_read_back(strict: bool) -> None:
    rows = fake_rows(points(["all_reduce", "broadcast"]))
    text = "\n".join(printed(rows, strict=strict, per_iteration=True))
    found = parse_nccl_tests(text).rows
    assert len(found) == len(rows) // 2
    for read, out, in_place in zip(found, rows[::2], rows[1::2], strict=True):
        assert read.size_bytes == out.size_bytes and read.out_of_place and read.in_place
        assert read.out_of_place.time_us == pytest.approx(out.time_us_loop, rel=0.01)
        assert read.in_place.time_us == pytest.approx(in_place.time_us_loop, rel=0.01)


def test_what_is_not_known_of_the_iterations_is_no_number() -> None:
    row = renamed(fake_rows(points(["all_reduce"]))[0], time_us_p99=None)
    tokens = table_line(row, None, strict=True, per_iteration=True).split()
    assert tokens[11] == "nan" and tokens[13:] == ["nan"] * 3 + ["N/A"] + ["nan"] * 4


@pytest.mark.parametrize("field", ["timing", "beside", "uneven"])
def test_every_way_of_calling_has_a_table_of_its_own(field: str) -> None:
    """Two rows of one size that were called in two ways never share a line."""
    plain = fake_rows(points(["all_reduce"], sizes=[1024, 4096]))
    other = [renamed(row, **{field: "other"}) for row in plain]
    lines = printed([*plain, *other], strict=True)
    assert sum("size" in line for line in lines) == 2
    assert len(data_lines(lines)) == 4
    assert any("other" in line for line in lines if line.startswith("# Calls"))


def test_options_above_a_table_are_those_of_its_rows() -> None:
    row = renamed(
        fake_rows(points(["all_reduce"]))[0],
        timing="graph",
        calls_per_graph=20,
        aggregated=4,
        blocking=True,
    )
    options = options_of(OPTIONS, row)
    lines = preamble("all_reduce", options, local_placement(2, "h"), versions="v")
    assert "agg iters: 4 " in lines[2] and "graph: 20 " in lines[2]
    assert any("Blocking Enabled" in line for line in lines)
    assert options_of(OPTIONS, renamed(row, timing="eager")).graph == 0


@pytest.mark.parametrize(("warmup", "iterations"), [(5, 20), (None, 20), (5, None), (None, None)])
def test_counts_that_each_point_chose_are_auto_above_the_table_and_read_back(
    warmup: int | None, iterations: int | None
) -> None:
    """A point's own count is none of the table's."""
    row = fake_rows(points(["all_reduce"]))[0]
    options = options_of(replace(OPTIONS, warmup=warmup, iterations=iterations), row)
    line = preamble("all_reduce", options, local_placement(2, "h"), versions="v")[2]
    assert f"warmup iters: {warmup or 'auto'} iters: {iterations or 'auto'} " in line
    found = read_line(line)
    assert isinstance(found, Options)
    assert (found.warmup, found.iterations, found.end_bytes) == (warmup, iterations, 1 << 26)
