"""The zoomable page in Chromium, network refused: it draws, asks for nothing, and shows tags as text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import load
from clusterlab.report.page.zoom import MOST_FIGURES, zoom_page
from tests.prometheus.some_runs import run_of, sweep_rows, training_run
from tests.records.fake_runs import renamed
from tests.report.chromium import Page

TAG = "<a href='http://evil.example'>x</a><img src=x onerror=alert(1)></script><script>alert(2)//"


def hostile_sweep(root: Path) -> RunDir:
    rows = sweep_rows()
    return run_of(root, [*rows, *(renamed(row, dtype=TAG) for row in rows)])


def test_the_library_comes_once_and_nothing_else_is_asked_for(tmp_path: Path) -> None:
    text = zoom_page(load(hostile_sweep(tmp_path)))
    assert text.count("plotly.js v") == 1
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text)
    assert text.count('class="plotly-graph-div"') == 4


def test_a_run_without_curves_has_no_page(tmp_path: Path) -> None:
    assert zoom_page(load(run_of(tmp_path))) == ""


def test_of_many_curves_the_rest_is_counted(tmp_path: Path) -> None:
    row = sweep_rows()[0]
    rows = [renamed(row, dtype=f"d{n}") for n in range(MOST_FIGURES + 3)]
    text = zoom_page(load(run_of(tmp_path, rows)))
    assert text.count('class="plotly-graph-div"') == MOST_FIGURES
    assert "3 more curves" in text


@pytest.mark.browser
def test_it_draws_offline_and_tags_are_text(tmp_path: Path, browser: Page) -> None:
    files = []
    for name, run in (("sweep", hostile_sweep(tmp_path)), ("train", training_run(tmp_path))):
        files.append(tmp_path / f"{name}.html")
        files[-1].write_text(zoom_page(load(run)), encoding="utf-8")
    for file in files:
        browser.open(file, width=1280)
        assert browser.requests() == [file.as_uri()]
        assert browser.complaints() == []
        drawn = "document.querySelectorAll('.trace path').length"
        assert browser.evaluate(drawn) > 3
        assert browser.evaluate("document.querySelectorAll('a[href*=evil], img').length") == 0
        assert browser.evaluate("document.documentElement.scrollWidth") <= 1280
    browser.open(files[0], width=1280)
    titles = "[...document.querySelectorAll('.gtitle')].map(t => t.textContent).join()"
    assert "<img src=x" in browser.evaluate(titles)
