"""The picture in a real browser: texts as wide as fonts make them, light and dark, nothing asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.drawing.svg import fabric_svg
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from tests.report.chromium import Page, page
from tests.topology.clusters import superpod

pytestmark = pytest.mark.browser

OVERLAPS = """
(() => {
  const boxes = [...document.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
  const bad = [];
  boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
    const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (x > 1 && y > 4) bad.push([a, b, x, y]);
  }));
  return bad;
})()
"""

# WCAG 2.1 contrast of every text against the box it stands in, else the background.
LOW_CONTRAST = """
(() => {
  const lum = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
    .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const rects = [...document.querySelectorAll('rect')].reverse();
  const bad = [];
  for (const e of document.querySelectorAll('text')) {
    const p = e.getBoundingClientRect();
    const under = rects.find(r => {
      const q = r.getBoundingClientRect();
      return q.left <= p.left + 1 && q.right >= p.right - 1 && q.top <= p.top + 4 && q.bottom >= p.bottom - 4;
    });
    const [a, b] = [lum(getComputedStyle(e).fill), lum(getComputedStyle(under).fill)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) bad.push([e.textContent, (a + .05) / (b + .05)]);
  }
  return bad;
})()
"""


@pytest.fixture(name="browser", scope="module")
def a_browser() -> Iterator[Page]:
    with page() as shown:
        yield shown


def fabrics() -> list[Fabric]:
    names = ("dgx-h100", "dgx-1v", "dgx-2", "gb200-nvl72", "superpod-h100-4su", "superpod-b300-4su")
    hurt = ["leaf3/spine2#1", "n5/nic3", "leaf6", "n9", "n3/gpu2/pcie2:half"]
    return [*map(load_fabric, names), break_fabric(superpod(31, 4), hurt)]


@pytest.mark.parametrize("fabric", fabrics(), ids=lambda fabric: fabric.name)
@pytest.mark.parametrize("dark", [False, True])
def test_texts_stay_apart_and_readable(
    browser: Page, fabric: Fabric, dark: bool, tmp_path: Path
) -> None:
    file = tmp_path / "fabric.svg"
    file.write_text(fabric_svg(fabric))
    browser.open(file, width=1600, dark=dark)
    assert browser.requests() == [file.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.evaluate(OVERLAPS) == []
    assert browser.evaluate(LOW_CONTRAST) == []
    back = browser.evaluate("getComputedStyle(document.querySelector('rect.back')).fill")
    assert back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")


def test_the_checks_would_have_noticed(browser: Page, tmp_path: Path) -> None:
    file = tmp_path / "bad.svg"
    file.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="50"><rect width="200" height="50" '
        'fill="#fff"/><text x="5" y="20" fill="#ccc">pale</text><text x="9" y="22">over it</text></svg>'
    )
    browser.open(file, width=400)
    assert browser.evaluate(OVERLAPS)
    assert browser.evaluate(LOW_CONTRAST)
