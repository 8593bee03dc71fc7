"""The page in a real browser that cannot reach any network."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.rows import Row
from clusterlab.records.documents import write_findings
from clusterlab.report.html import write_report
from tests.records.fake_runs import fake_row, fake_rows, make_run, points, renamed
from tests.report.chromium import Page

pytestmark = pytest.mark.browser

EMPTY = """
[...document.querySelectorAll(
  'h1,h2,h3,p,li,td,th,dd,dt,caption,summary,figure,section,article,details,a,pre')]
  .filter(e => !e.textContent.trim() && !e.querySelector('svg'))
  .map(e => e.outerHTML.slice(0, 120))
"""

# Elements drawn beyond the window that no scrolling box holds back.
OVERFLOWING = """
[...document.querySelectorAll('body *')]
  .filter(e => e.getBoundingClientRect().right > WIDTH + 1
    && !e.closest('.scroll') && !e.closest('pre') && !e.closest('svg'))
  .map(e => e.outerHTML.slice(0, 120))
"""


def overflowing(browser: Page, width: int) -> list[str]:
    found: list[str] = browser.evaluate(OVERFLOWING.replace("WIDTH", str(width)))
    return found


# WCAG 2.1 contrast of every text against the nearest background that is not transparent.
LOW_CONTRAST = """
(() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const back = e => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      const alpha = c.length > 3 ? c[3] : 1;
      if (alpha > 0) layers.push([c, alpha]);
      if (alpha === 1) break;
    }
    return layers.reverse().reduce(
      (under, [c, a]) => under.map((v, i) => c[i] * a + v * (1 - a)), [255, 255, 255]);
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const style = getComputedStyle(e);
    if (e.closest('script,style,title') || !e.getClientRects().length) continue;
    const fore = parse(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [lum(fore), lum(back(e))].sort((x, y) => y - x);
    const contrast = (a + .05) / (b + .05);
    if (contrast < 4.5) bad.push([e.className, e.textContent.slice(0, 30), contrast]);
  }
  return bad;
})()
"""


@pytest.fixture(
    name="report", scope="module", params=["full", "empty", "hostile", "one collective"]
)
def a_report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    rng = random.Random(3)
    rows: list[Row] = []
    name = "sweep"
    if request.param == "full":
        rows = fake_rows(points(dtypes=["float32", "bfloat16"]))
        rows = [fake_row(r.point, rng, slow=2.0) if r.collective == "reduce" else r for r in rows]
        rows[3] = renamed(rows[3], wrong=12, wrong_rank=1, wrong_index=9)
    elif request.param == "hostile":
        name = "a" * 300 + "<img src=http://example.com/x>"
        rows = [renamed(r, bottleneck=name, backend=name) for r in fake_rows(points(["reduce"]))]
    elif request.param == "one collective":
        rows = fake_rows(points(["all_reduce"]))
    run = make_run(folder, rows, name=name, planned_points=224, exit_code=1)
    if rows:
        finding = Finding("WRONG_DATA", Severity.FATAL, (name,), "halve the ranks", (1,), ("a->b",))
        write_findings(run.path, [finding])
    return write_report(run)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_asks_for_nothing_fits_its_window_and_shows_no_empty_box(
    browser: Page, report: Path, width: int, dark: bool
) -> None:
    browser.open(report, width=width, dark=dark)
    assert browser.requests() == [report.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert overflowing(browser, width) == []
    assert browser.evaluate(EMPTY) == []
    assert browser.evaluate(LOW_CONTRAST) == []
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert overflowing(browser, width) == []
    assert browser.evaluate(LOW_CONTRAST) == []


def test_the_verdict_is_on_the_first_screen_of_a_phone(browser: Page, report: Path) -> None:
    browser.open(report, width=400, height=700)
    bottom = browser.evaluate("document.querySelector('.banner').getBoundingClientRect().bottom")
    assert bottom <= 700
    size = browser.evaluate(
        "parseFloat(getComputedStyle(document.querySelector('.banner p')).fontSize)"
    )
    assert size >= 14


def test_chart_labels_stay_readable_on_a_phone(browser: Page, report: Path) -> None:
    browser.open(report, width=400)
    heights = browser.evaluate(
        "[...document.querySelectorAll('.chart text')].map(e => e.getBoundingClientRect())"
        ".filter(r => r.width).map(r => r.height)"
    )
    assert all(height >= 9 for height in heights)
    overlaps = browser.evaluate("""
      [...document.querySelectorAll('.chart')].flatMap(svg => {
        const boxes = [...svg.querySelectorAll('text.x')].map(e => e.getBoundingClientRect())
          .filter(r => r.width);
        return boxes.slice(1).map((box, i) => box.left - boxes[i].right).filter(gap => gap < 2);
      })""")
    assert overlaps == []


def test_dark_and_light_differ_and_printing_opens_the_figures(browser: Page, report: Path) -> None:
    browser.open(report, width=1280, dark=False)
    light = browser.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    browser.open(report, width=1280, dark=True)
    assert browser.evaluate("getComputedStyle(document.documentElement).backgroundColor") != light
    hidden = """[...document.querySelectorAll('details table')]
      .filter(e => !e.checkVisibility({contentVisibilityAuto: true})).length"""
    closed = browser.evaluate("document.querySelectorAll('details:not([open]) table').length")
    assert browser.evaluate(hidden) == closed
    browser.emulate_print()
    assert browser.evaluate(hidden) == 0


def test_every_scrolling_box_is_reached_by_keyboard(browser: Page, report: Path) -> None:
    browser.open(report, width=400)
    assert (
        browser.evaluate("""
      [...document.querySelectorAll('*')].filter(e => e.scrollWidth > e.clientWidth + 1
        && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX)
        && e.tabIndex < 0).map(e => e.outerHTML.slice(0, 80))""")
        == []
    )


def test_the_browser_itself_would_have_noticed(browser: Page, tmp_path: Path) -> None:
    """The checks above can fail: a page with every fault trips each of them."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><img src='http://example.com/x.png'><p></p>"
        "<div style='width:900px'>wide</div><p style='color:#aaa'>pale</p>"
    )
    browser.open(bad, width=400)
    assert "http://example.com/x.png" in browser.requests()
    assert browser.evaluate("document.documentElement.scrollWidth") > 400
    assert overflowing(browser, 400)
    assert browser.evaluate(EMPTY)
    assert browser.evaluate(LOW_CONTRAST)
