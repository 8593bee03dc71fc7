"""axe-core in Chromium: which accessibility rules a page breaks."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.report.chromium import Page

_PACKAGE = "axe_playwright_python"
"""Carries axe.min.js; the rest of it, and the Playwright that it drives, is not used."""

# Rows of a long table are alike: its first stand for all, and the rest is taken away.
_SHORTEN = "document.querySelectorAll('tbody tr:nth-child(n + 13)').forEach(row => row.remove())"

_RUN = """
axe.run(document, {resultTypes: ['violations']RULES})
  .then(found => found.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => v.id + ' (' + v.impact + '): ' + v.help + ': '
    + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160)).join(' | ')))
"""

_OF_LOOKS = ", runOnly: ['color-contrast', 'target-size', 'scrollable-region-focusable']"
"""What the window's width and its colours can change."""


@cache
def _script() -> str:
    """axe.min.js; skips the test where it is not installed, fails it when CI=true."""
    spec = find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        reason = "axe-core is not installed (make setup)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return (Path(folders[0]) / "axe.min.js").read_text(encoding="utf-8")


def violations(browser: Page, *, looks_only: bool = False) -> list[str]:
    """Serious and critical ones of the page that is open, with the first elements of each. Its long
    tables are short afterwards. ``looks_only``: of the rules that width and colours decide.
    """
    browser.evaluate(_SHORTEN)
    browser.evaluate(_script() + ";null")
    found: list[str] = browser.evaluate(_RUN.replace("RULES", _OF_LOOKS if looks_only else ""))
    return found
