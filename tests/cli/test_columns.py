"""Tables of the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.cli.columns import columns

cells = st.text(alphabet="0123456789.-/_abcé", min_size=1, max_size=30)


@given(st.data(), st.integers(1, 6), st.integers(1, 5))
def test_cells_of_any_length_stay_apart_and_columns_straight(
    data: st.DataObject, width: int, height: int
) -> None:
    layout = [
        f"{data.draw(st.sampled_from('<>'))}{data.draw(st.integers(0, 12))}" for _ in range(width)
    ]
    rows = [[data.draw(cells) for _ in range(width)] for _ in range(height)]
    lines = columns(rows, layout, indent="   ")
    assert [line.split() for line in lines] == rows
    for i, column in enumerate(layout):
        starts, ends = set(), set()
        for line, row in zip(lines, rows, strict=True):
            start = _start(line, row, i)
            starts.add(start)
            ends.add(start + len(row[i]))
            assert i == 0 or line[start - 2 : start] == "  "
        assert len(starts if column[0] == "<" else ends) == 1


def _start(line: str, row: list[str], i: int) -> int:
    at = 0
    for cell in row[:i]:
        at = line.index(cell, at) + len(cell)
    return line.index(row[i], at)


def test_short_figures_stand_where_the_least_widths_put_them() -> None:
    assert columns([["a", "1", "b c"], ["", "22", ""]], ["<4", ">3", "<0"]) == [
        "a       1  b c",
        "       22",
    ]


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises((ValueError, IndexError)):
        columns([["a", "b"], ["a"]], ["<1", "<1"])
