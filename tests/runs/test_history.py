"""The history's answers are those of a plain scan of the run directories, whatever happened to them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.rows import Row, make_point
from clusterlab.records import index_scan
from clusterlab.records.documents import write_placement
from clusterlab.records.run_dir import end_attempt, open_run, start_attempt
from clusterlab.records.schema import row_to_line
from clusterlab.records.store import latest_rows
from clusterlab.report.data import load
from clusterlab.runs.history import reading as history_read
from clusterlab.runs.history.asking import asked, listed, place
from clusterlab.runs.history.filters import Filters, filters
from clusterlab.runs.history.query import queried, row_dicts
from clusterlab.runs.history.trend import ranks_of
from clusterlab.verdict.judge import judge_row
from tests.records.fake_runs import START, fake_rows, make_run, points, renamed

SIZES = (1024, 1 << 20, 1 << 25)
NAMES = ("all_reduce", "broadcast", "send")


@pytest.fixture(autouse=True)
def _settles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_scan, "SETTLES_S", 0.0)
    monkeypatch.setattr(os, "fsync", lambda _fd: None)  # hundreds of small runs on a busy disk


def _rows(seed: int, attempt: int = 1) -> list[Row]:
    """A few rows of some collectives, sizes, timings and pairs, other ones for every seed."""
    rng = random.Random(seed)
    chosen = [
        p for p in points(NAMES[:2], SIZES, dtypes=("float32", "bfloat16")) if rng.random() < 0.3
    ]
    pairs = [make_point("send", size, dtype("float32"), 2) for size in SIZES]
    rows = fake_rows(
        [*chosen, *pairs], seed=seed, attempt=attempt, wrong=rng.choice((0, 0, None, 2))
    )
    some = []
    for i, row in enumerate(rows):
        ranks = tuple(rng.sample(range(4), 2)) if row.collective == "send" else None
        some.append(
            renamed(
                row,
                ranks=ranks,
                timing=rng.choice(("eager", "graph")),
                backend="nccl" if seed % 2 else "gloo",
                time_utc=f"{START + timedelta(days=seed % 40, seconds=i):%Y-%m-%dT%H:%M:%SZ}",
            )
        )
    return some


def _add(root: Path, seed: int) -> None:
    run = make_run(root, _rows(seed), name=f"sweep {seed % 3}", exit_code=(0, 1, None)[seed % 3])
    placed = load(run).placement
    assert placed is not None
    ranks = tuple(replace(r, host=f"n{(seed + r.rank // 2) % 5}") for r in placed.ranks)
    write_placement(run.path, replace(placed, ranks=ranks))


def _requeue(folder: Path, seed: int) -> None:
    """A later attempt measures some points again, and others."""
    run = start_attempt(open_run(folder), now=START + timedelta(hours=1))
    old = run.records().rows
    again = [
        renamed(row, attempt=run.attempt, time_us_loop=row.time_us_loop * 2) for row in old[::2]
    ]
    with run.records_path.open("ab") as file:
        for row in [*again, *_rows(seed, attempt=run.attempt)]:
            file.write(row_to_line(row))
    if seed % 2:
        end_attempt(run, 0, now=START + timedelta(hours=2))


def _tear(folder: Path, seed: int) -> None:
    """The last row is cut off anywhere: a crash, or a writer that is at it."""
    file = folder / "records.jsonl"
    content = file.read_bytes()
    if content:
        file.write_bytes(content[: -1 - seed % min(len(content), 300)])


def _damage(folder: Path, seed: int) -> None:
    victim = folder / ("run.json", "records.jsonl", "placement.json")[seed % 3]
    other = folder / "other"  # documents are replaced, as clusterlab does; not written into
    other.write_text('{"schema_version": 4, "x": 1}\n{}\n')
    other.replace(victim)


def _of_another_version(folder: Path, seed: int) -> None:
    file = folder / "run.json"
    data = json.loads(file.read_text())
    data["schema_version"] = 99 if seed % 2 else 2
    file.write_text(json.dumps(data))


def _old_rows(folder: Path, _seed: int) -> None:
    """Rows of schema 3 have no doubt."""
    file = folder / "records.jsonl"
    lines = []
    for line in file.read_text().splitlines():
        data = json.loads(line)
        data.pop("predicted_doubt", None)
        lines.append(json.dumps({**data, "schema_version": 3}) + "\n")
    file.write_text("".join(lines))


def _remove(folder: Path, _seed: int) -> None:
    shutil.rmtree(folder)


def _report(folder: Path, _seed: int) -> None:
    (folder / "report.html").write_text("<html>")


CHANGES: tuple[Callable[[Path, int], None], ...] = (
    _requeue, _tear, _damage, _of_another_version, _old_rows, _remove, _report,
)  # fmt: skip


def _change(root: Path, what: int, seed: int) -> None:
    folders = sorted(p for p in root.iterdir() if (p / "run.json").is_file())
    if not folders or what >= len(CHANGES):
        _add(root, seed)
        return
    try:
        CHANGES[what](folders[seed % len(folders)], seed)
    except (ClusterlabError, ValueError, OSError):
        return  # what is damaged already cannot be requeued


def _scan(root: Path, wanted: Filters) -> list[dict[str, Any]]:
    """What a query should find, run by run and row by row."""
    found = []
    for folder in sorted(p for p in root.iterdir() if (p / "run.json").is_file()):
        try:
            data = load(open_run(folder))
        except (ClusterlabError, OSError):
            continue
        hosts = list(data.placement.hosts) if data.placement else []
        for row in latest_rows(data.run.records().rows).rows:
            own = hosts
            if row.ranks is not None and data.placement is not None:
                own = list(dict.fromkeys(data.placement.ranks[r].host for r in row.ranks))
            if _fits(row, own, data.run.info.name, wanted):
                found.append(
                    {
                        **{name: getattr(row, name) for name in _COMPARED},
                        "run": folder.name,
                        "hosts": own,
                        "ranks": row.ranks,
                        "verdict": judge_row(row).verdict.value,
                    }
                )
    return found


_COMPARED = (
    *(
        "collective",
        "dtype",
        "op",
        "root",
        "in_place",
        "world_size",
        "size_bytes",
        "timing",
        "backend",
    ),
    *(
        "attempt",
        "wrong",
        "time_us_loop",
        "time_us_p50",
        "busbw_GBps",
        "predicted_busbw_GBps",
        "ratio",
    ),
    *("bottleneck", "time_utc", "requested_bytes", "aggregated", "library_version"),
)


def _fits(row: Row, hosts: list[str], name: str, wanted: Filters) -> bool:
    ends = {*(wanted.link or "").split(",")}
    return (
        (not wanted.collectives or row.collective in wanted.collectives)
        and (not wanted.dtypes or row.dtype in wanted.dtypes)
        and (not wanted.timings or row.timing in wanted.timings)
        and (not wanted.backends or row.backend in wanted.backends)
        and (not wanted.sizes or any(a <= row.size_bytes <= b for a, b in wanted.sizes))
        and (not wanted.hosts or any(host in wanted.hosts for host in hosts))
        and (not wanted.verdicts or judge_row(row).verdict.value in wanted.verdicts)
        and (not wanted.names or any(part in name for part in wanted.names))
        and (not wanted.link or (row.ranks is not None and {*hosts} == ends))
    )


def _answer(root: Path, wanted: Filters, folder: Path | None = None) -> list[dict[str, Any]]:
    (found, total), index = asked(place(root, folder), lambda i: queried(i, wanted, most=0))
    rows = list(row_dicts(found, index))
    assert len(rows) == total
    return [
        {
            **{name: row[name] for name in (*_COMPARED, "run", "hosts", "verdict")},
            "ranks": None if row["ranks"] is None else ranks_of(row["ranks"]),
        }
        for row in rows
    ]


def _same(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    texts = [sorted(json.dumps(row, sort_keys=True) for row in rows) for rows in (one, other)]
    assert texts[0] == texts[1]


ASKED = st.fixed_dictionaries(
    {},
    optional={
        "collective": st.sampled_from(["all_reduce", "broadcast,send"]),
        "dtype": st.just("bf16"),
        "timing": st.sampled_from(["eager", "graph"]),
        "backend": st.sampled_from(["nccl", "gloo"]),
        "size": st.sampled_from(["1M", "small", "1K:1M", "large,1K"]),
        "host": st.sampled_from(["n1", "n0,n4"]),
        "verdict": st.sampled_from(["pass", "invalid,slow"]),
        "name": st.just("sweep 1"),
        "link": st.sampled_from(["n1,n2", "n0,n1"]),
    },
)


@given(
    steps=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 999)), min_size=2, max_size=9),
    options=st.lists(ASKED, min_size=1, max_size=2),
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_answers_are_those_of_a_plain_scan(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, int]],
    options: list[dict[str, str]],
) -> None:
    root = tmp_path_factory.mktemp("runs")
    elsewhere = tmp_path_factory.mktemp("index")
    _add(root, 7)
    for what, seed in steps:
        _change(root, what, seed)
        _same(_answer(root, Filters()), _scan(root, Filters()))
    for one in options:
        wanted = filters(**one)
        right = _scan(root, wanted)
        _same(_answer(root, wanted), right)
        _same(_answer(root, wanted, elsewhere), right)
    (runs, total), _ = asked(place(root, None), lambda i: listed(i, Filters(), root, most=0))
    folders = sorted(p for p in root.iterdir() if (p / "run.json").is_file())
    assert sorted(run.name for run in runs) == [folder.name for folder in folders]
    assert total == len(folders)
    for run in runs:
        try:
            right_verdict = load(open_run(root / run.name)).judged.verdict.value
        except ClusterlabError as error:
            assert run.state == "damaged"
            assert run.said["error"][:20] in str(error)
        else:
            assert run.said["verdict"] == right_verdict


def test_processes_read_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_read, "MANY", 3)
    monkeypatch.setattr(history_read, "CHUNK", 2)
    for seed in range(5):
        _add(tmp_path, seed)
    _damage(sorted(tmp_path.iterdir())[2], 0)
    _same(_answer(tmp_path, Filters()), _scan(tmp_path, Filters()))


def test_a_run_that_vanishes_while_it_is_read_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(tmp_path, 1)
    gone = make_run(tmp_path, _rows(2), name="gone")

    def opened(folder: Path) -> object:
        if "gone" in folder.name:
            shutil.rmtree(folder)
        return open_run(folder)

    monkeypatch.setattr(history_read, "open_run", opened)
    (runs, _), _ = asked(place(tmp_path, None), lambda i: listed(i, Filters(), tmp_path, most=0))
    assert gone.path.name not in {run.name for run in runs}
    assert [run.state for run in runs] == ["exit code 1"]


def test_impossible_numbers_make_one_run_damaged_and_no_other(tmp_path: Path) -> None:
    _add(tmp_path, 1)
    odd = make_run(
        tmp_path, [renamed(row, count=10**30, wrong=10**30) for row in _rows(4)], name="odd"
    )
    below = make_run(tmp_path, [renamed(row, ranks=(-1, 2)) for row in _rows(4)], name="below")
    (runs, _), _ = asked(place(tmp_path, None), lambda i: listed(i, Filters(), tmp_path, most=0))
    states = {run.name: run.state for run in runs}
    assert states[odd.path.name] == states[below.path.name] == "damaged"
    assert sorted(states.values()) == ["damaged", "damaged", "exit code 1"]


def test_a_soak_that_goes_on_is_read_again(tmp_path: Path) -> None:
    """A run that has no end is looked at by all files that its verdict rests on."""
    run = make_run(tmp_path, _rows(3), exit_code=None)
    where = place(tmp_path, None)
    _, first = asked(where, lambda _: None)
    _, second = asked(where, lambda _: None)
    (run.path / "soak.jsonl").write_text("")
    _, third = asked(where, lambda _: None)
    assert (first.read, second.read, third.read) == (1, 0, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"since": "yesterday"}, "--since"),
        ({"until": "2026-13-01"}, "--until"),
        ({"since": "2026-11-30", "until": "2026-11-01"}, "--until"),
        ({"size": "huge"}, "--size"),
        ({"size": "1G:1M"}, "--size"),
        ({"collective": "all_redcue"}, "all_reduce"),
        ({"dtype": "f99"}, "f99"),
        ({"timing": "eagre"}, "eager"),
        ({"verdict": "good"}, "--verdict"),
    ],
)
def test_words_that_mean_nothing_are_refused_by_their_option(
    options: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        filters(**options)


def test_a_day_counts_whole() -> None:
    found = filters(since="2026-11-30", until="2026-11-30")
    assert found.until_s is not None
    assert found.since_s is not None
    assert found.until_s - found.since_s == 86399


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True))
def test_ranks_are_spelled_so_that_they_are_read_again(ranks: list[int]) -> None:
    from clusterlab.runs.history.rows import spans

    assert ranks_of(spans(ranks)) == tuple(ranks)
