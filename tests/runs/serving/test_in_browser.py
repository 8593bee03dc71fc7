"""Served pages in a real browser: they update themselves, keep their policy, are read without a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusterlab.records.run_dir import end_attempt
from tests.report.axe import violations
from tests.report.chromium import Page, page
from tests.runs.serving.live_server import Live, live
from tests.runs.serving.test_pages import append, begun

pytestmark = pytest.mark.browser

MEASURED = "document.querySelector('.counts').textContent.trim()"
SAID = "document.getElementById('served-said').textContent"


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with page(loopback=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def served(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(root, tmp_path_factory.mktemp("scratch")) as server:
        yield server


def wait(browser: Page, script: str, until: Callable[[Any], bool]) -> Any:
    """The value of ``script`` once it is as wanted; a page that is being loaded again has none."""
    end = time.monotonic() + 60
    while True:
        try:
            value = browser.evaluate(script)
        except AssertionError:
            value = None
        if value is not None and until(value):
            return value
        assert time.monotonic() < end, value
        time.sleep(0.1)


def enter(browser: Page, server: Live) -> str:
    browser.open(f"http://127.0.0.1:{server.port}/?token={server.gate.token}", width=1280)
    base = f"http://127.0.0.1:{server.port}{server.gate.mount}"
    assert browser.evaluate("location.href") == base
    return base


def test_a_page_updates_itself_and_keeps_what_was_opened(
    served: Live, browser: Page, root: Path
) -> None:
    run = begun(root)
    append(run, 0, 2)
    base = enter(browser, served)
    browser.open(f"{base}run/{run.path.name}/", width=1280)
    wait(browser, SAID, lambda said: "2 of 16 points" in said)
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    append(run, 2)
    wait(browser, MEASURED, lambda text: text.startswith("3 of 16"))
    assert browser.evaluate("[...document.querySelectorAll('details')].every(one => one.open)")
    browser.evaluate("document.getElementById('served-stop').click()")
    append(run, 3)
    wait(browser, SAID, lambda said: "4 of 16 points" in said)
    assert browser.evaluate(MEASURED).startswith("3 of 16")
    browser.evaluate("document.getElementById('served-stop').click()")
    wait(browser, MEASURED, lambda text: text.startswith("4 of 16"))
    end_attempt(run, 0)
    wait(
        browser, "document.querySelector('nav.served').textContent", lambda t: "Load again" not in t
    )
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [1280, 400])
def test_served_pages_break_no_rule_of_accessibility(
    served: Live, browser: Page, root: Path, width: int
) -> None:
    run = begun(root)
    append(run, 0, 9)
    base = enter(browser, served)
    for address in (base, f"{base}run/{run.path.name}/"):
        browser.open(address, width=width)
        assert violations(browser) == []
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        foreign = [url for url in browser.requests() if not url.startswith((base, "data:"))]
        assert foreign == []
        assert browser.complaints() == []


def test_without_scripts_the_page_is_whole(served: Live, browser: Page, root: Path) -> None:
    run = begun(root)
    append(run, 0, 2)
    base = enter(browser, served)
    browser.open(f"{base}run/{run.path.name}/", width=1280, script=False)
    assert browser.evaluate(MEASURED).startswith("2 of 16")
    refresh = "document.querySelector('meta[http-equiv=refresh]').content"
    assert browser.evaluate(refresh) == "10"
