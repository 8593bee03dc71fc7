"""What a row knows, where people read it: spread, noise, what the library chose, what calling costs."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from clusterlab.core.rows import Row
from clusterlab.report.console.chosen import chosen_line, did
from clusterlab.report.console.overhead import overhead_tables
from clusterlab.report.console.row_words import library_words, spread_words
from clusterlab.report.console.terminal import print_run, run_data
from clusterlab.report.curves import curves
from clusterlab.report.data import load
from clusterlab.report.error_matrix import error_matrix
from clusterlab.report.html import write_report
from clusterlab.verdict.overhead import overheads
from tests.records.fake_runs import fake_rows, make_run, points
from tests.report.test_nccl_table import printed
from tests.verdict.test_steady import steady_rows, with_width

SAID = {
    "library_algorithm": "nvls",
    "library_protocol": "simple",
    "library_channels": 24,
    "library_time_us": 13.25,
    "library_version": "2.28.9",
    "driver_version": "580.65",
    "transport": "P2P/CUMEM,NVLS",
    "gdr": True,
}


def printed_report(root: Path, rows: list[Row]) -> str:
    out = io.StringIO()
    print_run(load(make_run(root, rows)), out)
    return out.getvalue()


def page(root: Path, rows: list[Row]) -> str:
    return write_report(make_run(root, rows)).read_text()


def three_ways() -> list[Row]:
    eager = fake_rows(points(["all_reduce"]))
    direct = [replace(r, timing="direct", time_us_loop=r.time_us_loop - 20) for r in eager]
    graph = [replace(r, timing="graph", time_us_loop=r.time_us_loop - 30) for r in eager]
    return [*eager, *direct, *graph]


def test_ways_of_calling_are_curves_of_their_own(tmp_path: Path) -> None:
    rows = three_ways()
    found = curves(rows)
    assert [c.timing for c in found] == ["eager", "direct", "graph"]
    assert sorted(r.time_us_loop for c in found for r in c.rows) == sorted(
        r.time_us_loop for r in rows
    )
    assert len({c.title for c in found}) == 3
    matrix = error_matrix(rows)
    assert matrix and matrix.collectives == tuple(
        f"all_reduce {t}" for t in ("eager", "direct", "graph")
    )


@pytest.mark.parametrize("field", ["timing", "uneven"])
def test_no_two_rows_of_other_ways_share_a_place_on_a_curve(field: str) -> None:
    rows = fake_rows(points(["all_reduce"]))
    both = [*rows, *(replace(row, **{field: "other"}) for row in rows)]  # type: ignore[arg-type]
    assert sum(len(c.rows) for c in curves(both)) == len(both)


def test_framework_overhead_is_eager_less_the_others(tmp_path: Path) -> None:
    found = overheads(three_ways())
    assert len(found) == 16
    assert all(o.framework_us == pytest.approx(20) for o in found)
    assert all(o.issuing_us == pytest.approx(30) for o in found)
    (table,) = overhead_tables(found)
    assert len(table.rows) == 8 and table.rows[0][-2:] == ("20.0", "30.0")
    text = printed_report(tmp_path, three_ways())
    assert "Framework overhead of all_reduce float32 sum" in text
    data = run_data(load(make_run(tmp_path, three_ways())))
    assert json.loads(json.dumps(data))["framework_overhead"][0]["framework_us"] == pytest.approx(
        20
    )
    assert "Framework overhead" in page(tmp_path, three_ways())


def test_one_way_of_calling_has_no_overhead(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    assert overheads(rows) == ()
    assert "Framework overhead" not in printed_report(tmp_path, rows)
    assert "Framework overhead" not in page(tmp_path, rows)
    for odd in ({"ranks": (0, 1)}, {"beside": "compute"}):
        assert overheads([*rows, *(replace(r, timing="graph", **odd) for r in rows)]) == ()


def test_what_two_ways_do_not_have_in_common_is_not_known() -> None:
    rows = [row for row in three_ways() if row.timing != "direct"]
    assert {o.framework_us for o in overheads(rows)} == {None}


def test_a_noisy_run_says_so_everywhere(tmp_path: Path) -> None:
    rows = [with_width(row, 0.4) for row in steady_rows()]
    assert "note: The machine was noisy: at 20 of 20 points medians" in printed_report(
        tmp_path, rows
    )
    assert "The machine was noisy" in page(tmp_path, rows)
    # The last lines of the run say it; below the table it would stand twice on the screen.
    assert not any("oisy" in line for line in printed(rows))


def test_a_quiet_run_says_nothing_and_single_points_are_counted(tmp_path: Path) -> None:
    rows = steady_rows()
    assert "oisy" not in printed_report(tmp_path, rows)
    rows[3] = with_width(rows[3], 0.4)
    assert "note: 1 of 20 points were unsteady" in printed_report(tmp_path, rows)


def test_what_the_library_did_stands_beside_what_was_predicted(tmp_path: Path) -> None:
    rows = fake_rows(points(["all_reduce"]))
    said = [
        replace(
            row,
            **{**SAID, **({"library_algorithm": "ring"} if row.size_bytes < 65536 else {})},  # type: ignore[arg-type]
        )
        for row in rows
    ]
    (curve,) = curves(said)
    assert chosen_line(curve) == (
        "the library chose ring simple (1 KiB to 16 KiB), nvls simple (64 KiB to 16 MiB); "
        "as predicted at 0 of 8 sizes"
    )
    text = printed_report(tmp_path, said)
    assert "the library chose ring simple" in text
    html = page(tmp_path, said)
    assert "Library did" in html and "nvls simple, 24 channels" in html
    assert "expected 13.2 µs; P2P/CUMEM,NVLS; NICs reach GPU memory directly" in html
    assert "Library did" not in page(tmp_path, rows)
    assert chosen_line(curves(rows)[0]) is None and did(rows[0]) is None


def test_as_predicted_counts_what_the_library_said_of() -> None:
    rows = [
        replace(row, library_algorithm="ring", algorithm="ring", protocol="ll")
        for row in fake_rows(points(["all_reduce"]))
    ]
    (curve,) = curves(rows)
    assert "as predicted at 8 of 8 sizes" in (chosen_line(curve) or "")
    (other,) = curves([replace(row, library_protocol="simple") for row in rows])
    assert "as predicted at 0 of 8 sizes" in (chosen_line(other) or "")


def test_a_row_in_words_has_what_it_knows_and_no_more(tmp_path: Path) -> None:
    row = replace(
        steady_rows()[0],
        time_us_p99=321.0,
        outliers=3,
        rank_skew_us=2.5,
        arrival_skew_us=7.5,
        gpu_clock_mhz=1980.0,
        gpu_temp_c=45.0,
        throttled="sw_power_cap",
        stopped_by="budget",
        aggregated=4,
        blocking=True,
    )
    words = spread_words(row)
    for part in (
        "p99 321", "200 timed one by one, 3 stand out, budget spent", "rank 2.50 µs", "first 7.50 µs",
        "GPUs at 1980 MHz, 45 °C", "held back: sw_power_cap", "4 calls a group", "waits after each",
    ):  # fmt: skip
        assert part in words
    bare = spread_words(fake_rows(points(["all_reduce"]))[0])
    assert re.fullmatch(r"median [\d.,]+ µs, p95 [\d.,]+, at most [\d.,]+", bare)
    assert library_words(fake_rows(points(["all_reduce"]))[0]) == ""


@pytest.mark.parametrize(
    "field", ["library_algorithm", "transport", "library_version", "throttled"]
)
def test_hostile_words_are_inert_on_the_page(tmp_path: Path, field: str) -> None:
    """Every text that comes from elsewhere, also in what is shown when pointed at."""
    bad = '"><script>alert(1)</script>'
    rows = [replace(row, **{**SAID, field: bad}) for row in steady_rows()]  # type: ignore[arg-type]
    html = page(tmp_path, rows)
    assert "<script>alert" not in html and 'title=""><' not in html
