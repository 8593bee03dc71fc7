"""Scores of made-up tables, checked by hand; and every healthy row of the measured files predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.bands import size_band
from clusterlab.cost.predict import predict
from clusterlab.cost.scoring.machine import description_of
from clusterlab.cost.scoring.measured import MeasuredPoint, load_measured, read_measured
from clusterlab.cost.scoring.scored import (
    ScoredPoint,
    predict_points,
    request_for,
    with_one_latency,
)
from clusterlab.cost.scoring.scores import (
    check_by,
    figures,
    grouped,
    library_error,
    plateaus,
    table_scores,
)
from clusterlab.cost.types import Prediction, PredictRequest
from tests.support import shared_dir

SINGLE = "system,nccl_version,collective,dtype,n_ranks,size_bytes,time_us\n"
PUBLISHED = (
    "table_id,system,gpu,n_nodes,gpus_per_node,n_ranks,intra_fabric,inter_fabric,collective,dtype,"
    "in_place,size_bytes,time_us,algbw_GBps,busbw_GBps,nccl_version,algo,proto,notes,health,cause_code\n"
)
H100 = "x,H100-SXM-80G,2,8,16,nvswitch3-900,8x400G IB NDR"


def write(folder: Path, text: str) -> Path:
    path = folder / "measured.csv"
    path.write_text(text, encoding="utf-8")
    return path


def taking(time_us: float, library_us: float | None = None) -> object:
    """A model for which everything takes ``time_us``."""

    def model(request: PredictRequest) -> Prediction:
        return replace(predict(request), time_us=time_us, library_time_us=library_us)

    return model


@pytest.fixture
def points(tmp_path: Path) -> list[MeasuredPoint]:
    rows = "".join(f"h100_sxm,2.27.3,all_reduce,half,8,{size},{t}\n" for size, t in MEASURED)
    return load_measured(write(tmp_path, SINGLE + rows))


MEASURED = ((1024, 10), (1 << 20, 20), (8 << 20, 40), (64 << 20, 50))


def test_repeats_are_one_point_with_their_median(tmp_path: Path) -> None:
    rows = "".join(f"l40s,2.27.3,alltoall,half,2,512,{t}\n" for t in (9, 30, 11))
    (point,) = load_measured(write(tmp_path, SINGLE + rows))
    assert (point.time_us, point.samples, point.line, point.collective) == (11, 3, 2, "all_to_all")


def test_only_healthy_tables_count_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    rows = [
        f"t1,{H100},all_reduce,float,0,1024,30,,,,,,,healthy,",
        f"t1,{H100},all_reduce,float,0,0,30,,,,,,,healthy,",
        f"t1,{H100},all_reduce,float,0,2048,,,0.0,,,,,healthy,",
        f"t2,{H100},all_reduce,float,0,1024,30,,,,,,,unknown,",
        f"t3,{H100},all_reduce,float,0,1024,30,,,,,,,unhealthy,acs",
    ]
    found = read_measured(write(tmp_path, PUBLISHED + "\n".join(rows)))
    assert (len(found.points), found.rows, found.unhealthy, found.no_time) == (1, 5, 2, 2)


@pytest.mark.parametrize(
    ("time_us", "algbw", "busbw", "said"),
    [
        ("0", "", "", "a time of 0"),
        ("0.0", "53.3", "100", "a time of 0"),
        ("1e-300", "", "", "a time of 1e-300"),
        ("1e300", "", "", "a time of 1e+300"),
        ("0.5", "", "", "1048576 B in 0.5"),  # 3.9 TB/s
        ("19.66", "53.3", "5000", "a busbw of 5000"),
        ("", "", "5000", "a busbw of 5000"),
        ("19.66", "99999", "100", "an algbw of 99999"),
    ],
)
@pytest.mark.parametrize("at", range(3))
def test_figures_that_nothing_measures_are_left_out_and_named(
    tmp_path: Path, time_us: str, algbw: str, busbw: str, said: str, at: int
) -> None:
    rows = [f"t1,{H100},all_reduce,float,0,{1 << 20 + i},{20 + i},,,,,,,healthy," for i in range(3)]
    bad = f"t1,{H100},all_reduce,float,0,1048576,{time_us},{algbw},{busbw},,,,,healthy,"
    rows.insert(at, bad)
    found = read_measured(write(tmp_path, PUBLISHED + "\n".join(rows)))
    assert [p.time_us for p in found.points] == [20, 21, 22]
    ((line, why),) = found.unusable
    assert line == at + 2 and why.startswith(said)
    unwell = read_measured(
        write(tmp_path, PUBLISHED + "\n".join(rows).replace(bad, bad.replace("healthy", "unknown")))
    )
    assert unwell.unusable == () and unwell.unhealthy == 1


def test_one_rank_alone_may_be_as_fast_as_it_likes(tmp_path: Path) -> None:
    row = "h100_sxm,2.27.3,broadcast,half,1,1073741824,0.2\n"
    assert len(load_measured(write(tmp_path, SINGLE + row))) == 1


@pytest.mark.parametrize("cell", ["nan", "NaN", "-1", "inf", "-inf", "soon", "1,5", "0x10"])
@pytest.mark.parametrize("column", ["time_us", "algbw_GBps", "busbw_GBps"])
def test_a_cell_that_is_no_number_names_line_and_column(
    tmp_path: Path, cell: str, column: str
) -> None:
    cells = dict.fromkeys(PUBLISHED.strip().split(","), "")
    cells |= {"system": "x", "collective": "all_reduce", "n_ranks": "8", "size_bytes": "8"}
    cells |= {"time_us": "9", column: f'"{cell}"'}
    with pytest.raises(UsageError) as caught:
        read_measured(write(tmp_path, PUBLISHED + ",".join(cells.values())))
    assert (caught.value.where or "").endswith("measured.csv:2")
    assert caught.value.message == f"{column} is {cell!r}"


def test_a_busbw_of_another_measurement_is_said_and_the_time_scored(tmp_path: Path) -> None:
    rows = [
        f"t1,{H100},all_reduce,float,0,1000000,{t},,{b},,,,,healthy,"
        for t, b in ((25, 75), (26, 7.5), (27, 750))
    ]
    found = read_measured(write(tmp_path, PUBLISHED + "\n".join(rows)))
    assert found.disagree == (3, 4) and found.points[0].time_us == 26


def test_a_time_is_had_from_busbw_where_a_table_keeps_that_alone(tmp_path: Path) -> None:
    row = f"t1,{H100},all_reduce,float,1,1000000,,,75,,,,,healthy,\n"
    (point,) = load_measured(write(tmp_path, PUBLISHED + row))
    # busbw = size / time x 2 x 15 / 16
    assert point.time_us == pytest.approx(1e6 * 1.875 / 75e3)
    assert point.busbw_GBps == pytest.approx(75)


def test_what_was_forced_and_the_version_reach_the_request(tmp_path: Path) -> None:
    row = f"t1,{H100},allreduce,half,1,1024,30,,,2.26.2+cuda12.8,Ring (forced),LL128 (forced),,healthy,\n"
    (point,) = load_measured(write(tmp_path, PUBLISHED + row))
    request = request_for(point)
    assert request.overrides == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL128"}
    assert request.library_version == "2.26.2" and request.issue == "library"
    assert request.dtype == "float16" and len(request.groups[0]) == 16
    free = replace(point, algo="default (NVLSTree large)", proto="")
    assert request_for(free).overrides == {}


def test_notes_and_health_change_no_request(tmp_path: Path) -> None:
    quiet, loud = (
        load_measured(
            write(
                tmp_path,
                PUBLISHED + f"t1,{H100},all_reduce,float,0,1024,30,,,,,,{note},healthy,{c}\n",
            )
        )
        for note, c in (("", ""), ("NCCL_P2P_DISABLE=1 Ring (forced)", "acs"))
    )
    assert quiet == loud


def test_figures_are_those_computed_by_hand(points: list[MeasuredPoint]) -> None:
    # predicted 20 against 10, 20, 40, 50: +100 %, 0, -50 %, -60 %
    found = figures(predict_points(points, taking(20.0)))  # type: ignore[arg-type]
    assert (found.n, found.unpredicted) == (4, 0)
    assert found.mape_pct == pytest.approx(52.5)
    assert found.median_pct == pytest.approx(55)
    assert found.p90_pct == pytest.approx(60 + 0.7 * 40)
    assert found.bias_pct == pytest.approx(-2.5)


def test_the_librarys_own_model_is_scored_beside(points: list[MeasuredPoint]) -> None:
    scored = predict_points(points, taking(20.0, 10.0))  # type: ignore[arg-type]
    assert figures(scored, library_error).mape_pct == pytest.approx((0 + 50 + 75 + 80) / 4)
    without = figures(predict_points(points, taking(20.0)), library_error)  # type: ignore[arg-type]
    assert (without.n, without.unpredicted, without.mape_pct) == (4, 4, None)


def test_a_row_that_cannot_be_predicted_is_a_miss_with_its_reason(tmp_path: Path) -> None:
    rows = "voodoo,1,all_reduce,half,2,512,9\nh100_sxm,2.27.3,hypercube,half,2,512,9\n"
    scored = predict_points(load_measured(write(tmp_path, SINGLE + rows)))
    assert ["voodoo" in scored[0].reason, "hypercube" in scored[1].reason] == [True, True]
    found = figures(scored)
    assert (found.n, found.unpredicted, found.mape_pct, found.bias_pct) == (2, 2, 100, -100)
    assert table_scores(scored)[0].plateau_ratio == 0


def test_groups_have_the_figures_of_their_rows(points: list[MeasuredPoint]) -> None:
    scored = predict_points(points, taking(20.0))  # type: ignore[arg-type]
    bands = {k["size_band"]: f.mape_pct for k, f in grouped(scored, ["size_band"])}
    assert bands == {
        "<64 KiB": pytest.approx(100),
        "1-64 MiB": pytest.approx(25),
        ">=64 MiB": pytest.approx(60),
    }
    ((key, found),) = grouped(scored, check_by("system, collective"))
    assert key == {"system": "h100_sxm", "collective": "all_reduce"} and found.n == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column"),
        (" , ", "no column"),
        ("system,", "an empty name"),
        ("system,,gpu", "an empty name"),
        ("system,gpu,system", "column 'system' twice"),
        ("colour", "unknown column 'colour'"),
        ("sytem", "did you mean 'system'"),
        ("time_us", "unknown column 'time_us'"),
    ],
)
def test_by_takes_known_columns_once_each(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_by(text)
    assert caught.value.where == "--by" and said in str(caught.value)


@pytest.mark.parametrize(
    ("size", "band"),
    [
        ((64 << 10) - 1, "<64 KiB"),
        (64 << 10, "64 KiB-1 MiB"),
        (1 << 20, "1-64 MiB"),
        (64 << 20, ">=64 MiB"),
    ],
)
def test_bands_begin_at_their_name(size: int, band: str) -> None:
    assert size_band(size) == band


def test_a_plateau_is_the_largest_two_sizes(points: list[MeasuredPoint]) -> None:
    (table,) = table_scores(predict_points(points, taking(45.0)))  # type: ignore[arg-type]
    assert table.plateau_ratio == pytest.approx((40 / 45 + 50 / 45) / 2)
    found = plateaus([table, replace(table, plateau_ratio=0.85), replace(table, plateau_ratio=1.3)])
    assert found.within_10_pct == pytest.approx(100 / 3)
    assert found.within_20_pct == pytest.approx(200 / 3)


def test_one_latency_adds_what_the_smallest_size_misses(points: list[MeasuredPoint]) -> None:
    scored = with_one_latency(predict_points(points, taking(4.0, 2.0)))  # type: ignore[arg-type]
    assert [s.point.size_bytes for s in scored] == [1 << 20, 8 << 20, 64 << 20]
    assert [s.library_us for s in scored[:1]] == [10.0]
    assert scored[0].predicted_us == pytest.approx(4 + 6)


def test_one_latency_of_a_published_table_is_the_median_of_four_rows(tmp_path: Path) -> None:
    times = (90, 31, 33, 32, 50, 60)
    rows = "".join(
        f"t1,{H100},all_reduce,float,0,{1024 << i},{t},,,,,,,healthy,\n"
        for i, t in enumerate(times)
    )
    few = f"t2,{H100},all_reduce,float,0,1024,30,,,,,,,healthy,\n"
    measured = load_measured(write(tmp_path, PUBLISHED + rows + few))
    scored = with_one_latency(predict_points(measured, taking(20.0)))  # type: ignore[arg-type]
    assert [s.point.table for s in scored] == ["t1", "t1"]
    # measured less predicted: 70, 11, 13, 12; their median 12.5
    assert [s.predicted_us for s in scored] == [32.5, 32.5]


def test_a_measurement_below_the_bound_is_said(points: list[MeasuredPoint]) -> None:
    fast = ScoredPoint(points[0], 20.0, bound_us=10.5)
    assert fast.beats_bound and not replace(fast, bound_us=9.9).beats_bound


@pytest.mark.parametrize(
    "name", ["published_nccl_tests.csv", "single_node/nccl_tests_single_node.csv"]
)
def test_every_measured_table_has_a_fabric(name: str) -> None:
    measured = read_measured(shared_dir() / "measured" / name)
    assert measured.points
    machines = {(p.table, p.system): p for p in measured.points}
    for point in machines.values():
        request = request_for(point)
        assert len(request.groups[0]) == point.n_ranks


@pytest.mark.parametrize(
    "name", ["published_nccl_tests.csv", "single_node/nccl_tests_single_node.csv"]
)
def test_every_healthy_row_is_predicted(name: str) -> None:
    """Of each machine, collective and what was forced, one row: the rest differ in size and type alone."""
    measured = read_measured(shared_dir() / "measured" / name)
    assert not measured.unusable and not measured.disagree
    points = {(description_of(p), p.collective, p.algo, p.proto): p for p in measured.points}
    scored = predict_points([*points.values()])
    assert len(scored) >= 20
    assert figures(scored).unpredicted == 0, {s.reason for s in scored}
