"""What is asked of every page in the browser: each returns what is wrong, nothing where all is well."""

from __future__ import annotations

from tests.report.chromium import Page

PAPER_PX = 718
"""A4 less 1 cm on each side, in CSS pixels."""

_HOLLOW = """
[...document.querySelectorAll('main section, main article')].filter(e => {
  const heading = e.querySelector('h1,h2,h3');
  const rest = e.textContent.replace(heading ? heading.textContent : '', '').trim();
  return !heading || rest.length < 2;
}).map(e => e.outerHTML.slice(0, 160))
"""

_UNDRAWN = """
[...document.querySelectorAll('svg')].filter(e => e.getClientRects().length).filter(e => {
  const drawn = [...e.querySelectorAll('path,circle,rect,line,polyline,polygon')];
  return !drawn.some(s => { const b = s.getBBox(); return b.width + b.height > 0; })
    || e.innerHTML.includes('NaN') || e.innerHTML.includes('undefined');
}).map(e => e.outerHTML.slice(0, 160))
"""

_HIDDEN_FROM_READERS = """
[...document.querySelectorAll('svg')].filter(e => e.closest('[aria-hidden=true]') === null
  && !e.getAttribute('aria-label') && !e.querySelector('title')).map(e => e.outerHTML.slice(0, 160))
"""

_FETCHING = """
[...document.querySelectorAll('[src],[srcset],link[href],[data],[poster],use,image,iframe,object,embed,base')]
  .filter(e => !(e.getAttribute('src') || e.getAttribute('href') || 'x').startsWith('data:'))
  .filter(e => !(e.matches('use') && (e.getAttribute('href') || '').startsWith('#')))
  .map(e => e.outerHTML.slice(0, 160))
"""

_CUT = """
[...document.querySelectorAll('body *')].filter(e => {
  if (!e.getClientRects().length || e.closest('svg') || e.closest('.unseen')) return false;
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  const clips = ['hidden', 'auto', 'scroll', 'clip'];
  return box.right > WIDTH + 1
    || (clips.includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1)
    || (clips.includes(style.overflowY) && e.scrollHeight > e.clientHeight + 1 && !e.matches('h1'));
}).map(e => e.outerHTML.slice(0, 160))
"""

_FOCUSED = """
(() => {
  const e = document.activeElement, box = e.getBoundingClientRect();
  if (e === document.body) return null;
  const style = getComputedStyle(e);
  return {
    order: [...document.querySelectorAll('*')].indexOf(e),
    what: e.outerHTML.slice(0, 120),
    name: (e.getAttribute('aria-label') || e.textContent).trim(),
    seen: box.bottom > 0 && box.top < innerHeight && box.width > 0,
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
  };
})()
"""


def _list(browser: Page, script: str) -> list[str]:
    found: list[str] = browser.evaluate(script)
    return found


def hollow_sections(browser: Page) -> list[str]:
    """Sections without a heading, or with nothing but one."""
    return _list(browser, _HOLLOW)


def undrawn_charts(browser: Page) -> list[str]:
    """Drawings in which nothing is drawn, or a figure is none."""
    return _list(browser, _UNDRAWN)


def unnamed_charts(browser: Page) -> list[str]:
    """Drawings that say nothing to a screen reader and are not hidden from it."""
    return _list(browser, _HIDDEN_FROM_READERS)


def fetching(browser: Page) -> list[str]:
    """Elements that would load something when the page is opened."""
    return _list(browser, _FETCHING)


def cut_on_paper(browser: Page) -> list[str]:
    """What a printed page would cut; print is emulated, in a window of ``PAPER_PX``."""
    browser.emulate_print()
    return _list(browser, _CUT.replace("WIDTH", str(PAPER_PX)))


def lost_in_tabbing(browser: Page, most: int = 40) -> list[str]:
    """What is odd when the Tab key is pressed up to ``most`` times from the top of the page."""
    wrong, last = [], -1
    for _ in range(most):
        browser.press_tab()
        at = browser.evaluate(_FOCUSED)
        if at is None:
            break
        if at["order"] <= last:
            if last < 0 or at["order"] == last:
                wrong.append(f"the focus stays at {at['what']}")
            break  # round the browser's own controls, back at the top
        last = at["order"]
        wrong += [f"{why}: {at['what']}" for why in ("seen", "outlined", "name") if not at[why]]
    return wrong if last >= 0 else ["nothing can be focused"]
