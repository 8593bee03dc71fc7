"""Every page that clusterlab writes, of every kind of run, in a browser that cannot reach any network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from clusterlab.records.run_dir import open_run
from clusterlab.runs.report_page import write_page
from tests.conftest import clean_environment
from tests.report import looks
from tests.report.axe import violations
from tests.report.chromium import Page
from tests.report.kinds_of_run import KINDS, build

pytestmark = pytest.mark.browser

COMPARED = {
    "compared": ("two_gpus", "two_gpus_without_p2p"),
    "refused": ("two_gpus", "cpu_sweep"),
    "several_compared": ("two_gpus", "two_gpus_without_p2p", "slow_link"),
}
"""Pages of ``compare``: of runs of these kinds."""
PAGES = (*KINDS, *COMPARED)
MOST_BYTES = 1 << 20
Made = Callable[[str], Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory, calibrated_cache: Path) -> Made:
    """The page of a kind of run; made when it is first asked for."""
    runs: dict[str, Path] = {}
    pages: dict[str, Path] = {}
    environment = clean_environment(XDG_CACHE_HOME=str(calibrated_cache))

    def run_of(kind: str) -> Path:
        if kind not in runs:
            runs[kind] = build(kind, tmp_path_factory.mktemp(kind), environment)
        return runs[kind]

    def page_of(name: str) -> Path:
        if name not in pages and name in COMPARED:
            pages[name] = tmp_path_factory.mktemp(name) / "compare.html"
            sides = [str(run_of(kind)) for kind in COMPARED[name]]
            assert main(["compare", *sides, "--html", str(pages[name])]) in {1, 3}
        elif name not in pages:
            pages[name] = write_page(open_run(run_of(name)))
        return pages[name]

    return page_of


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("width", "dark"),
    [(1280, False), (1280, True), (400, False), (400, True)],
    ids=["wide-light", "wide-dark", "phone-light", "phone-dark"],
)
def test_a_page_asks_for_nothing_fits_and_is_accessible(
    browser: Page, made: Made, name: str, width: int, dark: bool
) -> None:
    page = made(name)
    assert page.stat().st_size < MOST_BYTES
    browser.open(page, width=width, dark=dark)
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    assert looks.fetching(browser) == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    first = browser.evaluate("document.querySelector('.banner').getBoundingClientRect().bottom")
    assert first <= 900
    assert browser.evaluate("document.querySelector('.banner .verdict').innerText.length") > 3
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert looks.hollow_sections(browser) == []
    assert looks.undrawn_charts(browser) == []
    assert looks.unnamed_charts(browser) == []
    assert violations(browser, looks_only=dark or width < 600) == []


COUNTED = "th,td,li,dd,p,pre,h1,h2,h3,summary,svg"
VISIBLE = (
    f"[...document.querySelectorAll('{COUNTED}')].filter(e => e.getClientRects().length).length"
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_read_without_javascript_and_by_keyboard(
    browser: Page, made: Made, name: str
) -> None:
    browser.open(made(name), width=1280)
    with_script = browser.evaluate(VISIBLE)
    assert looks.lost_in_tabbing(browser) == []
    browser.open(made(name), width=1280, script=False)
    assert browser.evaluate(VISIBLE) >= with_script


@pytest.mark.parametrize("name", PAGES)
def test_paper_cuts_nothing(browser: Page, made: Made, name: str) -> None:
    browser.open(made(name), width=looks.PAPER_PX)
    assert looks.cut_on_paper(browser) == []


BAD = """<!doctype html><title>bad</title><body><main><section><h2>Hollow</h2></section>
<section aria-label=x>no heading</section>
<svg role=img viewBox="0 0 9 9" width=90 height=90><path d="M0 0"/></svg>
<p style="color:#aaa">pale</p>
<div style="width:900px;overflow:hidden"><div style="width:2000px">cut</div></div>
<input><a href="#x" style="outline:none"></a></main>
<script>document.write('<p>only with script</p>')</script>
<img src="x.png"></body>"""


def test_the_looks_themselves_would_have_noticed(browser: Page, tmp_path: Path) -> None:
    """Each check above fails on a page with its fault."""
    bad = tmp_path / "bad.html"
    bad.write_text(BAD)
    browser.open(bad, width=400)
    assert len(looks.hollow_sections(browser)) == 2
    assert looks.undrawn_charts(browser) and looks.unnamed_charts(browser)
    assert looks.fetching(browser)
    assert {"label", "html-has-lang"} <= {found.partition(" ")[0] for found in violations(browser)}
    with_script = browser.evaluate(VISIBLE)
    assert {why.partition(":")[0] for why in looks.lost_in_tabbing(browser)} >= {"outlined", "name"}
    assert looks.cut_on_paper(browser)
    browser.open(bad, width=400, script=False)
    assert browser.evaluate(VISIBLE) < with_script
