"""nccl-tests' -J file from our rows: its keys and ways, and read back as the rows it was written from."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from clusterlab.core.collectives import OPERATIONS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.placement import local_placement
from clusterlab.core.rows import Row
from clusterlab.formats.measured.json_files import read_nccl_tests_json
from clusterlab.formats.nccl_tests_json import parse_nccl_tests_json, recognise
from clusterlab.report.files.nccl_tests_json import About, nccl_tests_json, tables
from tests.records.fake_runs import ALL_COLLECTIVES, fake_rows, points, renamed

ABOUT = About(
    command=("clusterlab", "bench", "all"),
    made_by="clusterlab 0",
    environment={"NCCL_ALGO": "Ring", "SLURM_JWT": "secret", "HOME": "/home/me"},
    started_utc="2026-11-29T12:00:00Z",
    ended_utc="2026-11-29T12:02:00Z",
    placement=local_placement(4, "node-a"),
    library_version="2.28.9+cuda13.0",
)


def loaded(rows: list[Row], about: About = ABOUT, **times: Any) -> dict[str, Any]:
    (table,) = tables(rows)
    data: dict[str, Any] = json.loads(nccl_tests_json(table, about, times.get("times", {})))
    return data


@pytest.mark.parametrize("collective", ALL_COLLECTIVES)
@pytest.mark.parametrize("complete", [True, False])
def test_our_reader_reads_back_the_rows(collective: str, complete: bool) -> None:
    rows = fake_rows(points([collective], dtypes=("float32", "bfloat16")), wrong=0)
    rows[3] = renamed(rows[3], wrong=None)
    if not complete:
        rows = rows[:-1]  # an in-place half is not there
    about = ABOUT if complete else About(**{**_fields(ABOUT), "ended_utc": None})
    text = nccl_tests_json(rows, about, {})
    assert recognise(text)
    parsed = parse_nccl_tests_json(text, file="f")
    assert parsed.complete is complete
    assert parsed.library_version == "2.28.9" and parsed.environment == {"NCCL_ALGO": "Ring"}
    read = read_nccl_tests_json(text, file="f").rows
    assert len(read) == len(rows)
    for ours, back in zip(rows, read, strict=True):
        assert (back.collective, back.dtype, back.op) == (collective, ours.dtype, ours.op)
        assert (back.size_bytes, back.count) == (ours.size_bytes, ours.count)
        assert (back.in_place, back.wrong) == (ours.in_place, ours.wrong)
        assert (back.time_us, back.algbw_GBps, back.busbw_GBps) == (
            ours.time_us_loop,
            ours.algbw_GBps,
            ours.busbw_GBps,
        )
        assert back.root == ours.root and back.world_size == ours.world_size
        assert (back.iterations, back.warmup) == (ours.iterations, ours.warmup)


def _fields(about: About) -> dict[str, Any]:
    return {name: getattr(about, name) for name in About.__dataclass_fields__}


def test_keys_order_and_types_are_those_of_nccl_tests() -> None:
    """In NVIDIA/nccl-tests src/util.cu 2.19, but for made_by."""
    rows = fake_rows(points(["all_reduce"], sizes=[1024, 4096]))
    times = {rows[0].point: [[1.0, 2.0], [3.0, 1.0]]}
    data = loaded(rows, times=times)
    assert list(data) == [
        *("version", "start_time", "args", "env", "nccl_version", "made_by", "config", "results"),
        *("out_of_bounds", "average_bus_bandwidth", "errors", "end_time"),
    ]
    assert data["version"] == 3 and data["nccl_version"] == 22809
    assert data["start_time"] == "2026-11-29 12:00:00"
    assert data["args"][0] == "all_reduce_perf"
    assert list(data["config"]) == [
        *("nthreads", "ngpus", "minimum_bytes", "maximum_bytes", "step_factor", "warmup_iters"),
        *("iterations", "aggregated_iterations", "validation", "graph", "blocking_collectives"),
        *("per_iter_timing", "per_iter_skip", "parallel_init", "devices"),
    ]
    assert data["config"]["step_factor"] == 4 and data["config"]["blocking_collectives"] == "false"
    assert list(data["config"]["devices"][0]) == [
        *("rank", "group", "pid", "hostname", "device", "device_hex", "device_info")
    ]
    result = data["results"][0]
    assert list(result) == [
        *("size", "count", "type", "redop", "root", "out_of_place", "out_of_place_per_iter"),
        *("in_place", "in_place_per_iter", "actual_iterations", "experiment_name"),
    ]
    assert result["type"] == DTYPES["float32"].nccl_tests and result["root"] == "    -1"
    assert list(result["out_of_place"]) == ["time", "alg_bw", "bus_bw", "nwrong"]
    per = result["out_of_place_per_iter"]
    assert list(per) == [
        *("skipped_iterations", "min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us"),
        *("stdev_us", "cv_pct", "times_us", "per_process_max_times_us"),
    ]
    assert per["times_us"] == [3.0, 2.0] and per["avg_us"] == 2.5
    assert per["per_process_max_times_us"] == [[1.0, 2.0], [3.0, 1.0]]
    assert result["in_place_per_iter"]["avg_us"] is None
    assert data["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert data["average_bus_bandwidth"]["okay"] == "unchecked"


@pytest.mark.parametrize("same", [True, False])
def test_counts_that_each_point_chose_stand_with_the_results(same: bool) -> None:
    rows = fake_rows(points(["all_reduce"], sizes=[1024, 4096]))
    if not same:
        rows = [renamed(r, iterations=100 + i, warmup=3 + i) for i, r in enumerate(rows)]
    data = loaded(rows)
    config = data["config"]
    assert config["iterations"] == (rows[0].iterations if same else None)
    assert config["warmup_iters"] == (rows[0].warmup if same else None)
    for result in data["results"]:
        halves = [r.iterations for r in rows if r.size_bytes == result["size"]]
        assert result["actual_iterations"] == min(halves)
    found = parse_nccl_tests_json(json.dumps(data), file="f")
    assert found.options is not None
    assert found.options.iterations == config["iterations"]
    assert found.options.end_bytes == 4096


def test_wrong_elements_are_counted_and_not_okay() -> None:
    rows = fake_rows(points(["all_reduce"]), wrong=3)
    data = loaded(rows)
    assert data["out_of_bounds"] == {"count": 3 * len(rows), "okay": "false"}
    assert all(result["in_place"]["nwrong"] == 3 for result in data["results"])


def test_an_interrupted_run_has_no_closing_keys_but_is_whole() -> None:
    about = About(**{**_fields(ABOUT), "ended_utc": None, "errors": ("rank 2 died",)})
    data = loaded(fake_rows(points(["all_reduce"])), about)
    assert not data.keys() & {"out_of_bounds", "average_bus_bandwidth", "end_time"}
    assert data["errors"] == ["rank 2 died"]


def test_the_environment_is_the_allow_list_only() -> None:
    assert loaded(fake_rows(points(["all_reduce"])))["env"] == ["NCCL_ALGO=Ring"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_a_text_and_what_is_not_known_null(bad: float) -> None:
    row = renamed(fake_rows(points(["all_reduce"]))[0], busbw_GBps=bad, time_us_p99=None)
    result = loaded([row])["results"][0]
    assert float(result["out_of_place"]["bus_bw"]) == pytest.approx(bad, nan_ok=True)
    assert result["out_of_place_per_iter"]["p99_us"] is None and result["in_place"] is None


def test_a_way_of_calling_is_a_file_of_its_own_and_pairs_are_in_none() -> None:
    eager = fake_rows(points(["all_reduce"]))
    graph = [renamed(row, timing="graph", calls_per_graph=20) for row in eager]
    pair = renamed(eager[0], ranks=(0, 1), world_size=2)
    found = tables([*eager, *graph, pair])
    assert [len(rows) for rows in found] == [len(eager), len(eager)]
    data = json.loads(nccl_tests_json(found[1], ABOUT, {}))
    assert data["config"]["graph"] == 20 and data["results"][0]["experiment_name"] == "graph"


@pytest.mark.parametrize(
    ("version", "code"),
    [("2.28.9", 22809), ("2.8.4", 2804), ("2.9.6", 20906), ("2.30.4+x", 23004), ("git", None)],
)
def test_version_codes_are_those_of_nccl_h(version: str, code: int | None) -> None:
    about = About(**{**_fields(ABOUT), "library_version": version})
    assert loaded(fake_rows(points(["all_reduce"])), about)["nccl_version"] == code


@pytest.mark.parametrize("name", OPERATIONS)
def test_everything_that_can_be_measured_has_a_file(name: str) -> None:
    row = renamed(fake_rows(points(["all_gather"]))[0], collective=name)
    data = loaded([row])
    assert data["args"][0] == f"{OPERATIONS[name].nccl_tests}_perf" and len(data["results"]) == 1
