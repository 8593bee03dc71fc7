"""Strings of runs are inert wherever they are shown: terminal, page, CSV, JSON, metrics, Markdown."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.report.files.csv_text import rows_csv
from tests.records.fake_runs import fake_rows, points
from tests.report.chromium import Page
from tests.report.hostile import (
    FORGED,
    HOSTILE,
    OWNED,
    TOGETHER,
    by_labels,
    hostile_run,
    joined,
    sweep_only,
)

TEXTS = [
    ["report", "{run}", "--no-html"],
    ["why", "{run}"],
    ["compare", "{run}", "{other}", "--points"],
    ["runs", "score", "{run}"],
    ["runs", "reproduce", "{run}", "{other}"],
    ["runs", "ended", "{run}"],
    ["runs", "list", "--runs", "{runs}"],
    ["runs", "query", "--runs", "{runs}"],
    ["runs", "trend", "--runs", "{runs}"],
    ["baseline", "check", "{run}", "{other}"],
    ["baseline", "save", "{run}", "-o", "{out}", "--allow-noisy"],
    ["localise", "{run}"],
    ["watch", "{run}", "--once"],
    ["calibrate", "{run}", "-o", "{out}"],
]
JSONS = [
    ["report", "{run}", "--json"],
    ["why", "{run}", "--json"],
    ["compare", "{run}", "{other}", "--json"],
    ["runs", "score", "{run}", "--json"],
    ["runs", "reproduce", "{run}", "{other}", "--json"],
    ["watch", "{run}", "--once", "--json"],
    ["runs", "list", "--runs", "{runs}", "--json"],
    ["runs", "query", "--runs", "{runs}", "--json"],
]
SHEETS = [["report", "{run}", "--csv"], ["runs", "query", "--runs", "{runs}", "--csv"]]
METRICS = [["export", "prom", "{run}"], ["export", "prom", "{run}", "--openmetrics"]]
CODES = {0, 1, 2, 3, 4}


@pytest.fixture(params=TOGETHER)
def text(request: pytest.FixtureRequest) -> str:
    return joined(request.param)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def filled(words: list[str], folder: Path) -> list[str]:
    run, other = sorted((folder / "runs").glob("[!.]*"))
    places = {"run": run, "other": other, "out": folder / "out", "runs": folder / "runs"}
    return [word.format(**places) for word in words]


def two_runs(folder: Path, text: str) -> None:
    for slow in (1.0, 1.5):
        sweep_only(hostile_run(folder / "runs", text, slow=slow))


def acting(said: str) -> list[str]:
    """Characters of ``said`` that would move a cursor, hide or turn text; and lines that a string made, which
    are not those that a long line before them was wrapped into.
    """
    bad = {c for c in said if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    lines = re.split("[\n\u2028\u2029]", said)
    forged = [
        line
        for before, line in pairwise(["", *lines])
        if line.strip().startswith(FORGED) and len(before.rstrip()) < NOT_WRAPPED
    ]
    return [*map(ascii, sorted(bad)), *forged]


NOT_WRAPPED = 40
"""Columns that a wrapped line fills at least: it is broken at words, of which none of these is longer."""


@pytest.mark.parametrize("words", TEXTS, ids=" ".join)
def test_a_terminal_shows_them_and_obeys_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    two_runs(tmp_path, text)
    code = main(filled(words, tmp_path))
    said = capsys.readouterr()
    assert code in CODES and "Traceback" not in said.err, said.err
    assert acting(said.out) == [] and acting(said.err) == []
    assert said.out or said.err


@pytest.mark.parametrize(
    "fields", [("backend", "op", "beside"), ("dtype", "timing"), ("collective",)]
)
def test_what_rows_are_of_is_shown_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fields: tuple[str, ...], text: str
) -> None:
    for slow in (1.0, 1.5):
        by_labels(sweep_only(hostile_run(tmp_path / "runs", text, slow=slow)), text, *fields)
    for words in (TEXTS[0], TEXTS[1], TEXTS[2], *METRICS):
        code = main(filled(words, tmp_path))
        said = capsys.readouterr()
        assert code in CODES and "Traceback" not in said.err, (words, said.err)
        assert acting(said.out) == [] and acting(said.err) == [], words


@pytest.mark.parametrize("words", JSONS, ids=" ".join)
def test_json_is_json_and_ascii_controls_stay_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    two_runs(tmp_path, text)
    main(filled(words, tmp_path))
    said = capsys.readouterr()
    assert acting(said.out) == [] and acting(said.err) == []
    whole = said.out if said.out.startswith("[") else f"[{','.join(said.out.splitlines())}]"
    assert json.loads(whole)


@pytest.mark.parametrize("words", SHEETS, ids=" ".join)
def test_a_spreadsheet_finds_no_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    two_runs(tmp_path, text)
    assert main(filled(words, tmp_path)) in CODES
    said = capsys.readouterr()
    cells = [cell for line in csv.reader(io.StringIO(said.out, newline="")) for cell in line]
    assert cells and formulas(cells) == []
    assert acting(said.err) == []


@pytest.mark.parametrize("name", [name for name in HOSTILE if name.startswith("formula")])
def test_a_formula_is_text_however_it_begins(name: str) -> None:
    rows = [replace(row, bottleneck=HOSTILE[name]) for row in fake_rows(points(["reduce"], [1024]))]
    cells = [cell for line in csv.reader(io.StringIO(rows_csv(rows), newline="")) for cell in line]
    assert HOSTILE[name].strip() in "".join(cells) and formulas(cells) == []


def formulas(cells: list[str]) -> list[str]:
    """Cells that a spreadsheet would compute, which numbers are not."""
    return [
        cell
        for cell in cells
        if cell.startswith(("=", "+", "-", "@", "\t", "\r")) and not _number(cell)
    ]


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_a_ticket_shows_them_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """No heading, link or element of theirs. A word joiner keeps the names of people from being called."""
    two_runs(tmp_path, text)
    assert main(filled(["report", "{run}", "--summary"], tmp_path)) in CODES
    said = capsys.readouterr().out
    fences = r"^(`{3,})[^\n]*\n.*?^\1$"
    outside = re.sub(fences, "", said.replace("\u2060", ""), flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(`+).+?\1", "", outside)
    assert not re.search(r"(?<!\\)<[a-z/!]|(?<!\\)\]\(http", outside, re.IGNORECASE)
    assert acting(outside) == [] and not re.search(f"^#+ {FORGED}", outside, re.MULTILINE)


SERIES = re.compile(r'[a-zA-Z_:][\w:]*(\{([a-zA-Z_]\w*="(\\[\\n"]|[^\\"\n])*",?)*\})? \S+( \S+)?')


@pytest.mark.parametrize("words", METRICS, ids=" ".join)
def test_metrics_hold_no_series_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    two_runs(tmp_path, text)
    assert main(filled(words, tmp_path)) in CODES
    said = capsys.readouterr()
    for line in said.out.split("\n"):
        assert not line or line.startswith("# ") or SERIES.fullmatch(line), ascii(line)
        assert not line.startswith(FORGED.lower())
    assert acting(said.err) == []


class Elements(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def pages(folder: Path, text: str) -> Iterator[tuple[str, Path]]:
    """Every kind of page of runs made of ``text``."""
    for kind in ("sweep", "training"):
        root = folder / kind / "runs"
        for slow in (1.0, 1.5):
            run = hostile_run(root, text, slow=slow)
            if kind == "sweep":
                sweep_only(run)
        main(filled(["report", "{run}"], folder / kind))
        yield kind, min(root.glob("[!.]*")) / "report.html"
    page = folder / "compare.html"
    main(filled(["compare", "{run}", "{other}", "--html", str(page)], folder / "sweep"))
    yield "compare", page


@pytest.fixture(scope="module")
def plain_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Elements]:
    """The same pages where every string is a word."""
    found = {}
    for kind, page in pages(tmp_path_factory.mktemp("plain"), "word"):
        found[kind] = Elements()
        found[kind].feed(page.read_text(encoding="utf-8"))
    return found


def test_a_page_has_no_element_and_no_attribute_of_theirs(
    tmp_path: Path, plain_pages: dict[str, Elements], text: str
) -> None:
    for kind, page in pages(tmp_path, text):
        content = page.read_text(encoding="utf-8")
        parsed = Elements()
        parsed.feed(content)
        assert set(parsed.tags) <= set(plain_pages[kind].tags), kind
        names = {name for name, _ in parsed.attributes}
        assert names <= {name for name, _ in plain_pages[kind].attributes}, kind
        assert not [n for n in names if n.startswith("on")]
        links = [v or "" for n, v in parsed.attributes if n in {"href", "src", "action"}]
        assert all(link.startswith(("#", "data:")) for link in links), kind
        assert not [
            c for c in content if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf")
        ]


@pytest.mark.browser
def test_no_script_of_theirs_runs_in_a_browser(browser: Page, tmp_path: Path, text: str) -> None:
    for kind, page in pages(tmp_path, text):
        browser.open(page, width=1280)
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.evaluate(f"typeof window.{OWNED}") == "undefined", kind
        assert browser.evaluate(f"document.querySelectorAll('{FORGED.lower()},img').length") == 0
        assert browser.evaluate("document.documentElement.scrollWidth") <= 1280, kind
        assert browser.requests() == [page.resolve().as_uri()], kind
        assert browser.complaints() == [], kind
        assert browser.evaluate("document.body.checkVisibility()")


def test_the_checks_themselves_would_have_noticed() -> None:
    """Each string is caught where it is given out as it is."""
    for name, bad in HOSTILE.items():
        parsed = Elements()
        parsed.feed(f"<p title=\"{bad}\">{bad}</p><p title='{bad}'></p>")
        caught = (
            acting(bad)
            or formulas([bad])
            or set(parsed.tags) > {"p"}
            or {n for n, _ in parsed.attributes} > {"title"}
            or "window" in str(parsed.attributes)
            or not SERIES.fullmatch(f'a{{b="{bad}"}} 1')
        )
        harmless = {"entity", "address", "template", "markup", "path", "format", "long", "wide"}
        assert caught or name in harmless, name
