"""nccl-tests' -J files and NCCL Inspector's records as rows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats import nccl_inspector, nccl_tests_json
from clusterlab.formats.measured.json_files import read_inspector, read_nccl_tests_json
from tests.formats.measured.examples import SIZES, inspector, json_file


def test_a_json_file_of_nccl_tests() -> None:
    text = json_file()
    assert nccl_tests_json.recognise(text)
    assert not nccl_inspector.recognise(text)
    file = read_nccl_tests_json(text, file="out.json")
    assert len(file.rows) == 2 * len(SIZES)
    row = file.rows[1]
    assert (row.collective, row.world_size, row.n_nodes, row.in_place) == ("all_reduce", 8, 1, True)
    assert (row.root, row.op, row.dtype, row.wrong) == (None, "sum", "float32", 0)
    assert (row.library_version, row.algorithm, row.iterations) == ("2.29.7", "ring", 20)
    assert not file.findings


def test_halves_that_were_not_run_and_times_that_are_none() -> None:
    document = json.loads(json_file())
    document["results"][0]["out_of_place"] = None
    document["results"][1]["in_place"]["time"] = "nan"
    document["results"][2]["in_place"]["nwrong"] = None
    rows = read_nccl_tests_json(json.dumps(document), file="out.json").rows
    assert [row.in_place for row in rows] == [True, False, False, True, False, True]
    assert rows[3].wrong is None


@given(cut=st.integers(1, 4000))
def test_a_json_file_cut_anywhere_gives_its_whole_results(cut: int) -> None:
    text = json_file()
    cut = min(cut, len(text) - 1)
    try:
        file = read_nccl_tests_json(text[:cut], file="out.json")
    except UsageError as error:
        assert "out.json" in str(error)
        return
    assert 0 < len(file.rows) <= 2 * len(SIZES)
    assert "table_truncated" in {finding.code for finding in file.findings}


def test_inspector_sizes_are_turned_into_nccl_tests() -> None:
    lines = [
        json.dumps(inspector()),
        json.dumps(inspector("ReduceScatter", parts=8)),
        json.dumps(inspector("AllGather", parts=8)),
    ]
    assert nccl_inspector.recognise(lines[0])
    rows = read_inspector(lines, file="i.log").rows
    assert [row.collective for row in rows] == ["all_reduce", "reduce_scatter", "all_gather"]
    assert [row.size_bytes for row in rows] == [1 << 20, 8 << 20, 8 << 20]
    for row in rows:
        assert row.algbw_GBps == pytest.approx(row.size_bytes / 1e5)
    assert (rows[0].rank, rows[0].world_size, rows[0].gpus_per_node) == (2, 8, 8)


def test_inspector_records_may_be_pretty_and_cut() -> None:
    pretty = json.dumps(inspector(), indent=2) + "\n"
    assert len(read_inspector((pretty * 3).splitlines(), file="i.json").rows) == 3
    cut = read_inspector((pretty + pretty[:200]).splitlines(), file="i.json")
    assert len(cut.rows) == 1
    assert [finding.code for finding in cut.findings] == ["rows_broken"]
    with pytest.raises(UsageError, match=r"i.json:1: no whole"):
        read_inspector(pretty[:200].splitlines(), file="i.json")


@given(at=st.integers(0, 400), what=st.text(min_size=1, max_size=8), gone=st.integers(0, 30))
def test_mutated_records_never_break_the_reader(at: int, what: str, gone: int) -> None:
    text = json.dumps(inspector()) + "\n"
    try:
        read_inspector((text[:at] + what + text[at + gone :] + text).splitlines(), file="i.log")
    except UsageError as error:
        assert "i.log" in str(error)


@given(at=st.integers(0, 3000), what=st.text(min_size=1, max_size=8), gone=st.integers(0, 30))
def test_mutated_json_files_never_break_the_reader(at: int, what: str, gone: int) -> None:
    text = json_file()
    try:
        read_nccl_tests_json(text[:at] + what + text[at + gone :], file="out.json")
    except UsageError as error:
        assert "out.json" in str(error)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_refused(deep: str) -> None:
    with pytest.raises(UsageError):
        read_nccl_tests_json('{"version":1,"args":[],"results":[' + deep, file="out.json")
    with pytest.raises(UsageError):
        read_inspector(['{"coll_perf":' + deep], file="i.log")
