"""One Chromium for all tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.chromium import Page, page


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    with page() as shown:
        yield shown
