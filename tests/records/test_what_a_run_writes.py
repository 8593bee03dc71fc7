"""docs/what-a-run-writes.md and the row schema say the same: every field, once, with its unit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterlab.core.rows import Row

PAGE = Path(__file__).parents[2] / "docs" / "what-a-run-writes.md"
UNITS = {"us": "µs", "bytes": "B", "GBps": "GB/s", "mhz": "MHz", "c": "°C", "utc": "UTC"}
LINE = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<unit>[^|]*?) ?\| (?P<meaning>[^|]+) \|$", re.MULTILINE
)


def described() -> list[re.Match[str]]:
    text = PAGE.read_text(encoding="utf-8")
    head = "| field | unit | meaning |\n"
    assert head in text
    return list(LINE.finditer(text[text.index(head) :].split("\n\n")[0]))


def test_every_field_is_described_once_in_the_schemas_order() -> None:
    assert [line["name"] for line in described()] == list(Row.__dataclass_fields__)


@pytest.mark.parametrize("line", described(), ids=lambda line: line["name"])
def test_the_unit_is_the_one_in_the_name(line: re.Match[str]) -> None:
    words = line["name"].split("_")
    named = [UNITS[word] for word in words if word in UNITS]
    assert line["meaning"].strip()
    if named:
        assert line["unit"] == named[-1]
    else:
        assert line["unit"] not in UNITS.values()
