"""Names as long as a file may be, and data that nobody checked: what the reader is told."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusterlab.records.run_dir import RunDir, open_run
from clusterlab.report.data import load
from clusterlab.report.files.summary import summary
from clusterlab.report.html import render
from clusterlab.runs.report_page import gathered
from clusterlab.runs.watching.watch import WatchOptions, watch
from tests.records.fake_runs import fake_rows, make_run, points

LONG = "n" * 1_000_000
ROWS = fake_rows(points(["all_gather"], sizes=[1024, 2048]))


def changed(run: RunDir, **fields: Any) -> RunDir:
    file = run.path / "run.json"
    data = json.loads(file.read_text())
    for attempt in (data["created_by"], *(a["context"] for a in data["attempts"])):
        attempt.update({name: value for name, value in fields.items() if name in attempt})
    data.update({name: value for name, value in fields.items() if name in data})
    file.write_text(json.dumps(data))
    return open_run(run.path)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": LONG},
        {"run_id": LONG},
        {"command": ["clusterlab", LONG]},
        {"versions": {"nccl": LONG}},
    ],
    ids=lambda one: next(iter(one)),
)
def test_of_a_name_is_shown_what_can_be_read(tmp_path: Path, fields: dict[str, Any]) -> None:
    run = changed(make_run(tmp_path, ROWS), **fields)
    data = load(run)
    beside = gathered(data, explain=False)
    text = summary(data, beside)
    assert len(text) < 20_000 and ("…" in text or "versions" in fields)
    title = re.search("<title>(.*?)</title>", render(data, beside), re.DOTALL)
    assert title is not None and len(title[1]) < 300
    out = io.StringIO()
    for once in (False, True):
        watch(WatchOptions(run.path, once=once), stdout=out)
    assert len(out.getvalue()) < 20_000


@pytest.mark.parametrize(
    ("wrong", "summarised", "on_page"),
    [
        ([None, None], "data not checked.", ["2 points"]),
        ([0, None], "0 wrong elements, data of 1 points not checked.", ["0 wrong", "1 points"]),
        ([0, 0], "0 wrong elements.", ["0 wrong"]),
        ([3, None], "3 wrong elements, data of 1 points not checked.", ["3 wrong", "1 points"]),
    ],
)
def test_data_that_nobody_checked_is_not_called_right(
    tmp_path: Path, wrong: list[int | None], summarised: str, on_page: list[str]
) -> None:
    some = [row for row in ROWS if not row.in_place]
    rows = [
        replace(row, wrong=count, **({"wrong_rank": 0, "wrong_index": 1} if count else {}))
        for row, count in zip(some, wrong, strict=True)
    ]
    data = load(make_run(tmp_path, rows))
    beside = gathered(data, explain=False)
    assert summarised in summary(data, beside)
    page = render(data, beside)
    said = re.findall("<b>([0-9]+)</b> (wrong elements|points whose data was not checked)<", page)
    assert [f"{count} {what.split()[0]}" for count, what in said] == on_page
