from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.findings import Verdict
from clusterlab.core.pairs import pair_steps, round_robin
from clusterlab.core.rows import Row
from clusterlab.verdict.pairs import pair_tables, pairs_to_json
from clusterlab.verdict.run_verdict import judge_run
from clusterlab.verdict.run_verdict_json import run_verdict_to_json
from tests.records.fake_runs import fake_row, fake_rows, points, renamed


def pair_rows(n: int = 4, sizes: tuple[int, ...] = (65536,), **options: object) -> list[Row]:
    steps = pair_steps(round_robin(n), sizes, ["float32"])
    return fake_rows([p for step in steps for p in step], noise=0.02, **options)


def slowed(rows: list[Row], ranks: tuple[int, int], factor: float) -> list[Row]:
    return [
        renamed(
            r,
            time_us_p50=r.time_us_p50 * factor,
            algbw_GBps=r.algbw_GBps / factor,
        )
        if set(r.ranks or ()) == set(ranks)
        else r
        for r in rows
    ]


@given(st.sampled_from([(0, 3), (1, 2), (2, 3)]), st.floats(1.5, 20))
def test_the_slowed_pair_is_named_by_latency_and_bandwidth(
    pair: tuple[int, int], factor: float
) -> None:
    for table in pair_tables(slowed(pair_rows(), pair, factor)):
        assert set(table.slowest.ranks) == set(pair)
        assert table.slowest.slowdown > 1.2
        assert (table.slowest.ratio > 1) == (table.unit == "us")
        assert table.slowest.ratio == pytest.approx(table.slowest.value / table.median)


def test_both_directions_of_a_send_are_figures_of_their_own() -> None:
    rows = pair_rows()
    one = next(r for r in rows if r.collective == "send" and r.ranks == (3, 0))
    rows[rows.index(one)] = renamed(one, algbw_GBps=one.algbw_GBps / 9)
    tables = {t.collective: t for t in pair_tables(rows)}
    assert tables["send"].slowest.ranks == (3, 0)
    assert [len(tables[c].pairs) for c in ("ping_pong", "send", "send_recv")] == [6, 12, 6]
    assert list(tables) == ["ping_pong", "send", "send_recv"], "latency first"


def test_rows_of_all_ranks_make_no_table_and_pairs_no_summary() -> None:
    whole = fake_rows(points(["send_recv"]))
    pairs = pair_rows(predicted=False)
    assert pair_tables(whole) == ()
    both = judge_run([*whole, *pairs])
    assert [s.collective for s in both.summaries] == ["send_recv"]
    assert both.summaries[0].points == len(whole)
    assert both.summaries[0].median_error == judge_run(whole).summaries[0].median_error
    assert {s.collective for s in both.partial} == {"ping_pong", "send", "send_recv"}
    assert both.points == len(whole) + len(pairs)
    assert both.judged.verdict == Verdict.NO_VERDICT
    assert "of some ranks" in both.judged.reason
    assert len(run_verdict_to_json(both)["of_some_ranks"]) == 3


def test_wrong_data_of_one_pair_makes_the_run_invalid() -> None:
    rows = pair_rows()
    rows[3] = fake_row(rows[3].point, random.Random(1), wrong=2)
    found = judge_run(rows)
    assert found.judged.verdict == Verdict.INVALID
    assert found.wrong == 2


def test_missing_pairs_are_no_pass() -> None:
    rows = pair_rows()
    assert judge_run(rows, planned_points=len(rows)).judged.verdict == Verdict.PASS
    judged = judge_run(rows[:-1], planned_points=len(rows)).judged
    assert judged.verdict == Verdict.NO_VERDICT


def test_figures_that_are_none_are_left_out() -> None:
    rows = pair_rows()
    spoiled = [renamed(rows[0], time_us_p50=float("nan")), *rows[1:]]
    table = next(t for t in pair_tables(spoiled) if t.collective == "ping_pong")
    assert len(table.pairs) == 5


def test_tables_as_plain_data() -> None:
    latency, *_ = pairs_to_json(pair_tables(slowed(pair_rows(), (1, 2), 5.0)))
    assert latency["unit"] == "us"
    assert latency["pairs"] == 6
    assert latency["slowest"]["ranks"] == [1, 2]


def test_every_timing_has_tables_of_its_own() -> None:
    """A pair measured in two ways is two figures, each beside those of its own way."""
    rows = pair_rows()
    graph = [renamed(row, timing="graph", time_us_p50=row.time_us_p50 / 2) for row in rows]
    tables = pair_tables([*rows, *graph])
    assert [t.timing for t in tables].count("graph") == len(tables) // 2 == len(pair_tables(rows))
    assert all(len({p.ranks for p in t.pairs}) == len(t.pairs) for t in tables)
    assert {d["timing"] for d in pairs_to_json(tables)} == {"eager", "graph"}
