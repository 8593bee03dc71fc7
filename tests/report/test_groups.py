from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest

from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.records.documents import write_placement
from clusterlab.report.console.groups import group_lines, words_of
from clusterlab.report.console.nccl_table_writer import TableWriter
from clusterlab.report.console.terminal import print_run, run_data
from clusterlab.report.data import load
from clusterlab.report.html import render
from clusterlab.report.page.groups import MOST_GROUPS, groups_view
from clusterlab.runs.sweeping.slow_groups import slow_group_findings
from clusterlab.verdict.groups import group_tables
from tests.records.fake_runs import make_run
from tests.verdict.test_groups import SIZES, group_rows, hosts, slowed

PLACEMENT = hosts(8, 2)


@pytest.fixture
def rows() -> list[Row]:
    return slowed(group_rows(), (4, 5), 2.0)


def table(rows: list[Row], *, strict: bool = False, places: tuple[bool, ...] = (False, True)):
    lines: list[str] = []
    writer = TableWriter(lines.append, strict=strict, places=places, groups=words_of(PLACEMENT))
    for row in rows:
        writer.add(row)
    writer.finish()
    return lines


def test_every_group_has_its_line_and_every_size_its_summary(rows: list[Row]) -> None:
    lines = table(rows)
    data = [line for line in lines if not line.startswith("#")]
    assert len(data) == 8 * len(SIZES)
    assert [line.rpartition("  ")[2] for line in data[:8]] == [f"host n{i}" for i in range(8)]
    below = [line for line in lines if "8 groups: busbw min" in line]
    assert len(below) == 2 * len(SIZES)
    assert all(line.endswith("slowest host n2 *") for line in below)
    # the summary of a size stands below its last group
    assert "host n7" in lines[lines.index(below[0]) - 1]
    assert "# Slower than its peers: host n2, at all sizes (6 of 6 points), 2" in "\n".join(lines)


def test_a_place_alone_does_not_wait(rows: list[Row]) -> None:
    lines = table([r for r in rows if r.in_place], places=(True,))
    assert len([line for line in lines if not line.startswith("#")]) == 8 * len(SIZES)
    assert len([line for line in lines if "groups: busbw min" in line]) == len(SIZES)


def test_readers_that_count_columns_still_can(rows: list[Row]) -> None:
    lines = table(rows, strict=True)
    data = [line for line in lines if not line.startswith("#")]
    assert {len(line.split()) for line in data} == {13}
    at = lines.index(data[3])
    assert lines[at - 1] == "# host n3"


def test_the_matrix_has_every_group_and_fits(rows: list[Row]) -> None:
    lines = group_lines(group_tables(rows), PLACEMENT)
    assert max(map(len, lines)) <= 100
    n2 = [line for line in lines if line.startswith("# host n2 ")]
    assert len(n2) == 2  # out of place and in place
    assert n2[0].count("*") == len(SIZES)
    many = group_rows(sizes=tuple(2**i for i in range(10, 31)))
    wide = group_lines(group_tables(many), PLACEMENT)
    assert max(map(len, wide)) <= 100
    assert "1 GiB" in wide[2]  # the largest is always shown
    assert wide[-1] == "# No group stands out."
    assert group_lines((), PLACEMENT) == []


def test_a_group_that_stands_out_once_is_marked_and_not_named() -> None:
    at = group_rows(sizes=SIZES)
    once = [
        replace(r, busbw_GBps=r.busbw_GBps / 3)
        if r.size_bytes == min(SIZES) and r.ranks == at[0].ranks and not r.in_place
        else r
        for r in at
    ]
    lines = group_lines(group_tables(once), PLACEMENT)
    assert sum(line.count("*") for line in lines) == 1 + 2  # the cell, and two keys
    assert lines[-1] == "# No group stands out at two sizes and half of them, so none is named."


def test_page_terminal_and_data_name_the_slow_group(rows: list[Row], tmp_path) -> None:
    run = make_run(tmp_path / "run", rows)
    write_placement(run.path, PLACEMENT)
    data = load(run)
    page = render(data)
    assert "Groups of ranks" in page
    assert "No point has been measured yet" not in page
    assert 'class="over-4"' in page
    out = StringIO()
    print_run(data, file=out)
    assert "Slower than its peers" in out.getvalue()
    assert json.loads(json.dumps(run_data(data)))["groups"]["slow"][0]["ranks"] == [4, 5]


def test_too_many_groups_are_not_drawn() -> None:
    rows = group_rows("node", hosts(MOST_GROUPS + 1, 2), sizes=(4096,))
    view = groups_view(group_tables(rows), None)
    assert view is not None
    assert view.maps == ()
    assert str(MOST_GROUPS + 1) in view.not_drawn
    assert groups_view((), None) is None


@pytest.mark.parametrize(
    ("placement", "wrong", "said"),
    [
        (PLACEMENT, 0, "Slower than its peers: host n2, at all sizes"),
        (PLACEMENT, 2, "No group is called slow: the data was wrong."),
        (hosts(1, 16), 0, "No group is called slow: they share the cores of one host."),
    ],
)
def test_table_report_and_finding_name_the_same(
    placement: Placement, wrong: int, said: str, rows: list[Row], tmp_path
) -> None:
    rows = [replace(r, wrong=wrong) if r is rows[-1] else r for r in rows]
    run = make_run(tmp_path / "run", rows)
    write_placement(run.path, placement)
    data, out = load(run), StringIO()
    print_run(data, file=out)
    named = said.startswith("Slower")
    assert said in "\n".join(group_lines(group_tables(rows), placement))
    assert said in out.getvalue()
    assert ("Slower than its peers" in out.getvalue()) == named
    assert bool(run_data(data)["groups"]["slow"]) == named
    assert bool(slow_group_findings(run)) == named
    view = groups_view(data.groups, placement)
    assert view is not None
    assert bool(view.slow) == named
