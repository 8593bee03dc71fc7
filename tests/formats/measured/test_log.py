"""Logs as measured rows: what is known of a table, what its figures prove, what is wrong with it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.measured.file import Given, MeasuredFile, with_given
from clusterlab.formats.measured.log import read_log
from clusterlab.runs.foreign import read_measured
from tests.formats.measured.examples import BANNER, HEADER, SIZES, devices, table
from tests.support import shared_dir


def read(text: str) -> MeasuredFile:
    return read_log(text.splitlines(), file="run.log")


def codes(file: MeasuredFile) -> set[str]:
    return {finding.code for finding in file.findings}


def test_the_device_list_gives_ranks_nodes_and_gpus() -> None:
    file = read(BANNER + devices(2, 8) + table("all_reduce", 16))
    row = file.rows[0]
    assert (row.world_size, row.n_nodes, row.gpus_per_node) == (16, 2, 8)
    assert (row.gpu, row.world_size_from) == ("NVIDIA H100 80GB HBM3", "devices listed")
    assert (row.iterations, row.warmup, row.cuda_graph) == (20, 5, False)
    assert [r.in_place for r in file.rows[:2]] == [False, True]
    assert len(file.rows) == 2 * len(SIZES)
    assert not file.findings


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("all_reduce", 16),
        ("reduce_scatter", 8),
        ("broadcast", 8),
        ("reduce", 4),
        ("all_reduce", 72),
    ],
)
def test_a_table_alone_proves_collective_and_where_it_can_the_ranks(name: str, ranks: int) -> None:
    file = read(table(name, ranks))
    assert {row.collective for row in file.rows} == {name}
    expected = None if name in {"broadcast", "reduce"} else ranks
    assert {row.world_size for row in file.rows} == {expected}
    assert ("ranks_unknown" in codes(file)) == (expected is None)


def test_all_gather_and_all_to_all_are_told_apart_by_what_is_checked() -> None:
    assert read(table("all_gather", 8)).rows[0].collective == "all_gather"
    assert read(table("all_to_all", 8, in_place_wrong="N/A")).rows[0].collective == "all_to_all"
    unchecked = read(table("all_to_all", 8, wrong="N/A", in_place_wrong="N/A"))
    assert unchecked.rows[0].collective is None
    assert "collective_unknown" in codes(unchecked)
    filled = with_given(unchecked, Given(collective="all_to_all"))
    assert (filled.rows[0].collective, filled.rows[0].collective_from) == ("all_to_all", "option")
    assert "collective_unknown" not in codes(filled)


def test_the_program_names_the_collective_before_the_figures_do() -> None:
    said = "# Collective test starting: sendrecv_perf\n" + BANNER + devices(1, 2)
    row = read(said + table("send_recv", 2, in_place_wrong="N/A")).rows[0]
    assert (row.collective, row.collective_from) == ("send_recv", "program sendrecv_perf")
    row = read("$ ./build/reduce_perf -g 2\n" + BANNER + devices(1, 2) + table("reduce", 2)).rows[0]
    assert (row.collective, row.collective_from) == ("reduce", "command reduce_perf")
    other = read(
        "# Collective test starting: hypercube_perf\n"
        + BANNER
        + devices(1, 2)
        + table("send_recv", 2)
    )
    assert other.rows[0].collective is None
    assert "collective_unknown" in codes(other)


def test_busbw_that_is_not_the_collectives_is_said() -> None:
    file = read(
        "# Collective test starting: all_reduce_perf\n"
        + BANNER
        + devices(1, 4)
        + table("all_reduce", 8)
    )
    assert "busbw_disagrees" in codes(file)
    assert file.rows[0].world_size == 4


def test_runs_one_after_the_other_are_tables_of_their_own() -> None:
    one = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    two = "$ broadcast_perf\n" + BANNER + devices(2, 8) + table("broadcast", 16)
    file = read(one + two + table("all_reduce", 32))
    seen = {row.table: (row.collective, row.world_size) for row in file.rows}
    assert seen == {1: ("all_reduce", 8), 2: ("broadcast", 16), 3: ("all_reduce", 32)}


def test_a_run_that_died_before_its_table_leaves_nothing_to_the_next() -> None:
    died = "$ all_reduce_perf\n" + BANNER + devices(2, 8)
    file = read(died + "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8))
    assert {(row.table, row.world_size) for row in file.rows} == {(1, 8)}
    assert not file.findings


def test_processes_that_are_worlds_of_their_own_are_found() -> None:
    rank = "#  Rank  0 Group  0 Pid {} on node0 device  0 [0x08] Tesla V100-SXM2-16GB\n"
    rows = table("all_reduce", 1).splitlines(keepends=True)
    mixed = "".join(line for line in rows for _ in range(2))
    file = read(
        "$ mpirun -np 2 all_reduce_perf\n"
        + BANNER
        + BANNER
        + rank.format(1)
        + rank.format(2)
        + mixed
    )
    assert "separate_processes" in codes(file)
    assert {(row.table, row.world_size) for row in file.rows} == {(1, 1)}
    assert len(file.rows) == 4 * len(SIZES)


def test_wrong_elements_are_kept_and_are_an_error() -> None:
    file = read(BANNER + devices(1, 8) + table("all_reduce", 8, wrong="3"))
    assert [row.wrong for row in file.rows[:2]] == [3, 0]
    (finding,) = file.findings
    assert (finding.code, finding.severity) == ("wrong_values", "error")


def test_the_error_column_of_old_tools_counts_nothing() -> None:
    old = (
        "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n"
        "  1048576  262144  float  sum  135.3  7.75  15.02  7e-07  132.7  7.90  15.31  7e-07\n"
    )
    row = read(old).rows[0]
    assert (row.wrong, row.max_error, row.collective) == (None, 7e-07, "all_reduce")


def test_a_row_that_nccl_lines_broke_up_is_put_together() -> None:
    text = BANNER + devices(1, 2) + HEADER + (
        "     1048576        262144     float     sum      -1[0] NCCL INFO AllReduce: 1048576 Bytes -> Algo "
        "RING proto SIMPLE channel{Lo..Hi}={0..23}\n"
        "[0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}\n"
        "    27.40   38.27   38.27       0node0:1:2 [0] NCCL INFO x\n"
        "    27.30   38.41   38.41       0\n"
        "     2097152        524288     float     sum      -1    35.00   59.92   59.92       0    35.00   "
        "59.92   59.92       0\n"
    )  # fmt: skip
    file = read(text)
    assert [row.time_us for row in file.rows] == [27.4, 27.3, 35.0, 35.0]
    chosen = [(row.algorithm, row.protocol, row.channels) for row in file.rows]
    assert chosen == [("ring", "simple", 24)] * 2 + [(None, None, None)] * 2
    assert codes(file) == {"rows_rejoined", "table_truncated"}


def test_columns_of_other_tools_and_options() -> None:
    rccl = (
        "#                in-place\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "  1048576  262144  float  sum  -1  100.00  10.49  18.36  0\n"
    )
    (row,) = read(rccl).rows
    assert (row.in_place, row.time_us) == (True, 100.0)
    mscclpp = (
        "#                     in-place                       out-of-place\n"
        "#       size         count     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
        "  1048576  262144  100.00  10.49  18.36  0  200.00  5.24  9.18  0\n"
    )
    rows = read(mscclpp).rows
    assert [(row.in_place, row.time_us) for row in rows] == [(False, 200.0), (True, 100.0)]
    assert {row.dtype for row in rows} == {None}
    per_iteration = (
        "#  out-of-place (+ per-iteration)   in-place (+ per-iteration)\n"
        "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%  time"
        "  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv%\n"
        "  1048576  262144  float  sum  -1  100.0  10.49  18.36  0  90.0  110.0  109.0  2.0  101.0"
        "  10.38  18.17  0  91.0  111.0  110.0  2.1\n"
    )
    assert [row.time_us for row in read(per_iteration).rows] == [100.0, 101.0]


def test_the_rows_do_not_change_what_is_refused() -> None:
    with pytest.raises(UsageError, match="ended before its first size"):
        read(BANNER + devices(1, 8))
    with pytest.raises(UsageError, match="topo import"):
        read("node0:1:2 [0] NCCL INFO Using network Socket")
    with pytest.raises(UsageError, match="nothing that was measured"):
        read("hello\n1 2 3 4\n")


@given(cut=st.integers(0, 4000))
def test_a_log_cut_anywhere_gives_its_rows_or_one_clear_error(cut: int) -> None:
    whole = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    full = read(whole)
    try:
        file = read(whole[:cut])
    except UsageError:
        return
    assert 0 < len(file.rows) <= len(full.rows)
    times = [row.time_us for row in full.rows]
    assert [row.time_us for row in file.rows] == times[: len(file.rows)]
    assert len(file.rows) == len(full.rows) or "table_truncated" in codes(file)


@given(at=st.integers(0, 3000), what=st.text(min_size=1, max_size=12), gone=st.integers(0, 40))
def test_mutated_logs_never_break_the_reader(at: int, what: str, gone: int) -> None:
    whole = "$ all_reduce_perf\n" + BANNER + devices(1, 8) + table("all_reduce", 8)
    try:
        file = read(whole[:at] + what + whole[at + gone :])
    except UsageError as error:
        assert "run.log" in str(error)
    else:
        assert all(row.time_us is not None and row.time_us >= 0 for row in file.rows)


def test_every_sample_has_as_many_rows_as_stated_or_is_refused() -> None:
    samples = shared_dir() / "samples"
    checked = 0
    for stated in csv.DictReader((samples / "expect.csv").read_text().splitlines()):
        if stated["kind"] != "nccl_logs":
            continue
        checked += 1
        rows = re.match(r"(\d+) table rows", stated["notes"])
        read_all = read_measured([samples / stated["path"]])
        if read_all.refused:
            assert rows is None, stated["path"]
            continue
        (file,) = read_all.files
        rejoined = [f for f in file.findings if f.code == "rows_rejoined"]
        # A row that other lines broke up is not counted there.
        more = int(re.search(r"(\d+) rows were", rejoined[0].evidence[0])[1]) if rejoined else 0  # type: ignore[index]
        lines = {(row.table, row.line) for row in file.rows}
        if rows is not None:
            assert len(lines) - more == int(rows.group(1)), stated["path"]
        elif "Inspector" in stated["notes"]:
            assert len(file.rows) == 1
    assert checked > 50


def test_samples_say_what_the_published_tables_made_of_them_say() -> None:
    shared = shared_dir()
    published: dict[str, set[tuple[str, int, int, float]]] = {}
    ranks: dict[str, int] = {}
    for row in csv.DictReader(
        (shared / "measured/published_nccl_tests.csv").read_text().splitlines()
    ):
        if row["time_us"]:
            key = (
                row["collective"],
                int(row["in_place"]),
                int(row["size_bytes"]),
                float(row["time_us"]),
            )
            published.setdefault(row["table_id"], set()).add(key)
            ranks[row["table_id"]] = int(row["n_ranks"])
    compared = 0
    for note in sorted((shared / "samples/nccl_logs").glob("*.src")):
        named = re.search(r"^tables: (.*)$", note.read_text(), re.MULTILINE)
        sample = Path(str(note).removesuffix(".src"))
        for table_id in named.group(1).split(", ") if named else ():
            compared += _compare(sample, published.get(table_id, set()), ranks.get(table_id))
    assert compared > 25


def _compare(sample: Path, published: set[tuple[str, int, int, float]], ranks: int | None) -> bool:
    """Whether there was something to compare; every published point must be among the sample's rows."""
    if not published:
        return False
    names = {"all_to_all": "alltoall", "send_recv": "sendrecv"}
    wanted = {name for name, _, _, _ in published}
    (file,) = read_measured([sample]).files
    found = {
        (
            names.get(row.collective, row.collective),
            int(bool(row.in_place)),
            row.size_bytes,
            row.time_us,
        )
        for row in file.rows
        if row.collective and row.world_size == ranks
    }
    if not any(row.collective for row in file.rows):
        name = wanted.pop()
        found = {(name, int(bool(r.in_place)), r.size_bytes, r.time_us or 0.0) for r in file.rows}
    assert published <= found, (sample.name, sorted(published - found)[:3])
    return True
