"""Pages of runs that are being written: they follow, beside each other, and say what is wrong in words."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from clusterlab.core.stepping import StepLine
from clusterlab.records.lines import STEPS, LineWriter
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, start_attempt
from clusterlab.runs.serving import rendered, routes
from tests.records.fake_runs import fake_row, fake_rows, make_run, points
from tests.runs.serving.live_server import Live, live

POINTS = list(points(["all_reduce"]))
HOSTILE = "<script>alert(1)</script>\x1b[2J=cmd|'/C calc'!A0\u202e"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def served(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routes, "LOOK_S", 0.05)
        patch.setattr(rendered, "LIST_S", 0.0)
        with live(root, tmp_path_factory.mktemp("scratch")) as server:
            yield server


def begun(root: Path, name: str = "grows") -> RunDir:
    return start_attempt(create_run(name, root=root), planned_points=len(POINTS))


def append(run: RunDir, first: int, count: int = 1) -> None:
    with run.writer() as writer:
        for point in POINTS[first : first + count]:
            writer.append(fake_row(point, random.Random(first)))


def test_a_page_follows_what_is_appended(served: Live, root: Path) -> None:
    run = begun(root)
    append(run, 0, 2)
    page = f"run/{run.path.name}/"
    first = served.page(page)
    assert "<b>2 of 16</b> points" in first.text
    assert '<meta http-equiv="refresh" content="10">' in first.text
    assert "script-src 'sha256-" in first.headers["Content-Security-Policy"]
    assert "connect-src 'self'" in first.headers["Content-Security-Policy"]
    told = served.events(f"{page}events")
    before = next(told)
    assert f'data-stamp="{before["stamp"]}"' in first.text
    assert "2 of 16 points" in before["said"] and "is running" in before["said"]
    with run.records_path.open("ab") as file:
        file.write(b'{"schema_version":4,"collect')  # half a row, as another host may see it
    append(run, 2)
    after = next(
        one for one in told if "3 of 16" in one["said"] and one["stamp"] != before["stamp"]
    )
    assert f'data-stamp="{after["stamp"]}"' in served.page(page).text
    assert "<b>3 of 16</b> points" in served.page(page).text
    end_attempt(run, 0)
    last = [one for one in told if one.get("over")]
    assert "ended with exit code 0" in last[0]["said"]
    ended = served.page(page)
    assert "<script>" not in ended.text and 'http-equiv="refresh"' not in ended.text
    assert "script-src" not in ended.headers["Content-Security-Policy"]


def test_a_run_that_goes_away_or_gets_a_link_is_told_as_gone(served: Live, root: Path) -> None:
    for how in ("removed", "linked"):
        run = begun(root, how)
        told = served.events(f"run/{run.path.name}/events")
        assert "over" not in next(told)
        if how == "removed":
            run.path.rename(root / f".{run.path.name}")
        else:
            (run.path / "steps.jsonl").symlink_to("/etc/hostname")
        assert list(told)[-1] == {"said": "The run is gone.", "over": True}
        assert served.page(f"run/{run.path.name}/").status == 404


def test_several_runs_are_written_at_once(served: Live, root: Path) -> None:
    runs = [begun(root, f"r{i}") for i in range(3)]
    streams = [served.events(f"run/{run.path.name}/events") for run in runs]
    assert all("0 of 16" in next(stream)["said"] for stream in streams)
    listed = served.events("events")
    before = next(listed)["stamp"]
    for number, run in enumerate(runs):
        append(run, 0, number + 1)
    for number, stream in enumerate(streams):
        assert any(f"{number + 1} of 16" in told["said"] for told in stream)
    assert next(listed)["stamp"] != before
    text = served.page("").text
    assert all(f"<td>{number + 1} of 16</td>" in text for number in range(3))


def test_a_training_follows_its_steps(served: Live, root: Path) -> None:
    run = start_attempt(
        create_run("t", root=root),
        configuration={"measures": "training", "train": {"steps": 4}},
    )
    told = served.events(f"run/{run.path.name}/events")
    assert "0 of 4 steps" in next(told)["said"]
    with LineWriter(run.path / STEPS) as writer:
        writer.append(
            StepLine(0, 1, "2026-11-29T12:00:00Z", 5.0, 100.0, 1, 1.0, 40.0, 40.0, {"tp": 10.0}, 0.0,
                     5.0, 4.0, 1 << 20, 16)
        )  # fmt: skip
    said = next(one["said"] for one in told if "1 of 4 steps" in one["said"])
    assert "slowest rank: 1" in said


def test_rows_are_downloads(served: Live, root: Path) -> None:
    run = make_run(root, fake_rows(POINTS))
    base = f"run/{run.path.name}/"
    table = served.page(f"{base}rows.csv")
    assert table.headers["Content-Disposition"].startswith('attachment; filename="')
    assert len(table.text.splitlines()) == 1 + len(POINTS)
    data = served.page(f"{base}data.json")
    assert len(json.loads(data.body)["rows"]) == len(POINTS)
    raw = served.page(f"{base}records.jsonl")
    assert raw.body == run.records_path.read_bytes()
    assert raw.headers["Content-Type"] == "application/x-ndjson"


def test_two_runs_beside_each_other(served: Live, root: Path) -> None:
    one, two = (make_run(root, fake_rows(POINTS, seed=seed), name="x") for seed in (1, 2))
    text = served.page(f"compare?a={one.path.name}&b={two.path.name}").text
    assert one.path.name in text and two.path.name in text
    assert 'href="./"' in text  # back to the list


def test_what_runs_say_is_shown_not_obeyed(served: Live, root: Path) -> None:
    run = make_run(root, fake_rows(POINTS), name=HOSTILE, host=HOSTILE)
    odd = run.path.rename(root / "20261129T120000Z-<b>&\"' é")
    listed, page = served.page(""), None
    for said in (listed, page := served.page("run/20261129T120000Z-%3Cb%3E&%22'%20%C3%A9/")):
        assert said.status == 200
        assert "<script>alert" not in said.text and "<b>&" not in said.text
        assert "\x1b" not in said.text and "\u202e" not in said.text
    assert (
        page is not None and odd.name.replace("&", "&amp;").replace("<", "&lt;")[:20] in page.text
    )
    table = served.page("run/20261129T120000Z-%3Cb%3E&%22'%20%C3%A9/rows.csv")
    assert table.headers["Content-Disposition"] == (
        'attachment; filename="20261129T120000Z-_b______.csv"'
    )


@pytest.mark.parametrize(
    "name", [b"a\xff", b"a\x1b[2J", b"a\nb", "a\u202eb".encode(), b"%2e%2e", b"a b#?&"]
)
def test_odd_names_of_folders_break_nothing(served: Live, root: Path, name: bytes) -> None:
    run = make_run(root, fake_rows(POINTS[:1]), name="odd")
    run.path.rename(os.fsdecode(os.fsencode(root) + b"/" + name))
    text = served.page("").text
    assert "\x1b" not in text and "\u202e" not in text
    links = re.findall(r'href="(run/[^"]*)"', text)
    assert links
    assert {served.page(link).status for link in links[:3]} <= {200, 422}
    assert (quote(name) in text) == os.fsdecode(name).isprintable()


def test_a_damaged_run_is_told_in_words_and_others_are_served(served: Live, root: Path) -> None:
    bad = make_run(root, [], name="bad")
    bad.records_path.write_text('{"schema_version": 4, "collective": 7}\n')
    worse = make_run(root, [], name="worse")
    (worse.path / "run.json").write_text("[" * 100_000)
    good = make_run(root, fake_rows(POINTS), name="good")
    said = served.page(f"run/{bad.path.name}/")
    assert said.status == 422 and "records.jsonl:1" in said.text and "Traceback" not in said.text
    assert served.page(f"run/{worse.path.name}/").status == 422
    assert served.page(f"run/{good.path.name}/").status == 200
    assert "cannot be read" in served.page("").text


def test_the_list_has_pages(tmp_path: Path) -> None:
    for number in range(103):
        create_run(f"n{number:03d}", root=tmp_path / "runs")
    with live(tmp_path / "runs", tmp_path) as served:
        first, second = served.page(""), served.page("?page=2")
        assert first.text.count('<a href="run/') == 100 and "103 runs, page 1 of 2" in first.text
        assert second.text.count('<a href="run/') == 3
        assert served.page("?page=99").text == second.text


def test_an_unchanged_page_is_not_made_again(served: Live, root: Path) -> None:
    run = make_run(root, fake_rows(POINTS))
    served.page(f"run/{run.path.name}/")
    made = served.server.routes.rendered._made
    for _ in range(3):
        served.page(f"run/{run.path.name}/")
    assert served.server.routes.rendered._made == made
