from __future__ import annotations

import json
import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from clusterlab.core.placement import local_placement
from clusterlab.core.rows import Row
from clusterlab.report.console.pairs import MOST_NUMBERS, pair_lines
from clusterlab.report.console.terminal import print_run, run_data
from clusterlab.report.curves import curves
from clusterlab.report.data import load
from clusterlab.report.error_matrix import error_matrix
from clusterlab.report.files.csv_text import rows_csv
from clusterlab.report.html import render
from clusterlab.report.page.pairs import MOST_RANKS, pairs_view
from clusterlab.verdict.pairs import pair_tables
from tests.records.fake_runs import fake_rows, make_run, points
from tests.verdict.test_pairs import pair_rows, slowed


@pytest.fixture
def rows() -> list[Row]:
    return slowed(pair_rows(sizes=(4096, 65536)), (1, 2), 4.0)


@pytest.mark.parametrize("timing", ["graph", "direct"])
def test_another_timing_is_named_and_fits(rows: list[Row], timing: str) -> None:
    lines = pair_lines(pair_tables([replace(r, timing=timing) for r in rows]), None)
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith(f"{timing} ") for line in lines) >= 5


def test_the_terminal_names_the_slowest_pair_and_its_hosts(rows: list[Row]) -> None:
    lines = pair_lines(pair_tables(rows), local_placement(4, "n0"))
    summary = lines[3:8]
    assert [" ".join(x.split()[:2]) for x in summary] == [
        "latency (us)", "one way", "both ways", "one way", "both ways",
    ]  # fmt: skip
    assert all(re.search(r"[12] \(n0\) (→|↔) [12] \(n0\)", line) for line in summary)
    assert sum(line.count("*") for line in lines) == 6, "one cell, or two of one pair, and the key"
    assert max(map(len, lines)) <= 100


def test_many_ranks_get_a_character_each(rows: list[Row]) -> None:
    n = MOST_NUMBERS + 2
    lines = pair_lines(pair_tables(slowed(pair_rows(n), (0, 9), 4.0)), None)
    first = next(line for line in lines if line.startswith("     0 "))
    assert len(first) == len("  rank ") + 1 + n
    assert first[-n:].index("#") == 9
    assert set(first[-n:]) <= set(" .-+#")


@pytest.mark.parametrize("size", [8, 64, 4096, 1 << 30])
def test_cells_of_any_size_stand_apart(size: int) -> None:
    rows = [replace(r, algbw_GBps=r.size_bytes * 1.23e-8) for r in pair_rows(sizes=(size,))]
    lines = pair_lines(pair_tables(rows), local_placement(4, "n0"))
    cells = [line.split() for line in lines if re.match(r" {5}\d ", line)]
    assert len(cells) == 3 * 4
    assert all(len(words) == 1 + 4 + 1 for words in cells), lines


def test_nothing_is_said_without_pairs() -> None:
    assert pair_lines((), None) == []
    assert pairs_view((), None) is None


def test_pairs_are_in_no_curve_and_no_residual(rows: list[Row]) -> None:
    assert curves(rows) == ()
    assert error_matrix(rows) is None
    whole = fake_rows(points(["send_recv"]))
    assert curves([*whole, *rows]) == curves(whole)


def test_the_page_has_a_heat_map_and_the_slowest_pairs(rows: list[Row], tmp_path: Path) -> None:
    data = load(make_run(tmp_path, rows, name="pairs", planned_points=len(rows)))
    view = pairs_view(data.pairs, data.placement)
    assert view is not None
    assert [len(m.rows) for m in view.maps] == [4, 4, 4]
    assert all(re.match(r"[12] \(node-a\)", slow[0]) for slow in view.slowest[:7])
    page = render(data)
    assert "Heat map: one way (GB/s), 64 KiB" in page
    assert 'class="over-4"' in page
    assert "No point has been measured" not in page
    out = StringIO()
    print_run(data, out)
    assert "slowest pair" in out.getvalue()
    told = json.loads(json.dumps(run_data(data)))
    assert {tuple(sorted(t["slowest"]["ranks"])) for t in told["pairs"]} == {(1, 2)}
    assert told["rows"][0]["ranks"] == [0, 3]


def test_a_heat_map_beyond_its_limit_is_left_out_and_said() -> None:
    view = pairs_view(pair_tables(pair_rows(MOST_RANKS + 1, sizes=())), None)
    assert view is not None
    assert not view.maps
    assert "No heat map" in view.not_drawn
    assert view.slowest


def test_ranks_are_one_cell_of_the_csv(rows: list[Row]) -> None:
    head, first, *_ = rows_csv(rows).splitlines()
    assert first.split(",")[head.split(",").index("ranks")] == "0 3"
