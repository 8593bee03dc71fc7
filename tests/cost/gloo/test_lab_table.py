"""What was measured on shaped labs (docs/measured/lab.md) against today's predictions."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterlab.core.collectives import busbw_factor
from clusterlab.core.sizes import parse_size
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.predict import predict
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.opening import open_fabric
from tests.cost.examples import request

TABLE = Path(__file__).parents[3] / "docs" / "measured" / "lab.md"
RINGS = ("all_reduce", "reduce_scatter", "all_gather", "send_recv")
Row = tuple[str, str, str, str, float, float]
"""Lab (and routing), what is broken, collective, size, predicted and measured busbw (MB/s)."""


def rows() -> list[Row]:
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if "| `lab" in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [
        (lab, "" if broken == "–" else broken, name, size, float(predicted), float(measured))
        for lab, broken, name, size, predicted, measured, _, _ in cells
    ]


def predicted_MBps(lab: str, broken: str, name: str, size: str) -> float:
    design, _, routing = lab.partition("` ")
    fabric = open_fabric(design.strip("`"))
    if broken:
        fabric = break_fabric(fabric, [broken])
    how: Routing = "hash" if routing == "hash" else "pinned"
    size_bytes = parse_size(size.replace(" ", ""))
    found = predict(request(fabric, 8, name, size_bytes, routing=how))
    return size_bytes * busbw_factor(name, 8) / found.time_us


@pytest.mark.parametrize("row", rows(), ids=lambda row: " ".join(row[:4]))
def test_the_table_says_what_is_predicted_today(row: Row) -> None:
    assert predicted_MBps(*row[:4]) == pytest.approx(row[4], rel=0.01, abs=0.05)


def test_rings_take_what_is_predicted_and_nothing_is_far_off() -> None:
    errors = {
        row[:4]: measured / predicted - 1 for row in rows() for *_, predicted, measured in [row]
    }
    assert len(errors) >= 100
    rings = {key: error for key, error in errors.items() if key[2] in RINGS}
    assert {key: error for key, error in rings.items() if abs(error) > 0.08} == {}
    assert {key: error for key, error in errors.items() if abs(error) > 0.3} == {}
