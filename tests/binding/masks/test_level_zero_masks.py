"""ZE_AFFINITY_MASK: the specification's own examples, two cards of four tiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.binding.masks import LevelZeroDevice, evaluate_ze_mask

TWO_OF_FOUR = [4, 4]
ALL = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("mask", "devices"),
    [
        ("0, 1", [(0, ALL), (1, ALL)]),
        ("0", [(0, ALL)]),
        ("1", [(1, ALL)]),
        ("0.0", [(0, (0,))]),
        ("1.1, 1.2", [(1, (1, 2))]),
        ("0.2, 1.3, 1.0, 0.3", [(0, (2, 3)), (1, (0, 3))]),
        ("7,1.9,x", []),
        (None, [(0, ALL), (1, ALL)]),
    ],
)
def test_composite_counts_cards_and_their_tiles(
    mask: str | None, devices: list[tuple[int, tuple[int, ...]]]
) -> None:
    found = evaluate_ze_mask(mask, TWO_OF_FOUR, "COMPOSITE")
    assert found == tuple(LevelZeroDevice(card, tiles) for card, tiles in devices)


@pytest.mark.parametrize("hierarchy", ["FLAT", "COMBINED", None, "flat"])
@pytest.mark.parametrize(
    ("mask", "positions"),
    [
        ("0,1,2,3,4,5,6,7", range(8)), ("0", [0]), ("1,4", [1, 4]), ("4,1", [1, 4]), ("0.1", []),
        ("5,0.1", [5]), ("8", []), ("", range(8)), ("default", range(8)), (None, range(8)),
    ],
)  # fmt: skip
def test_flat_counts_tiles_in_a_row(
    mask: str | None, positions: list[int], hierarchy: str | None
) -> None:
    found = evaluate_ze_mask(mask, TWO_OF_FOUR, hierarchy)
    assert [4 * device.card + device.tiles[0] for device in found] == list(positions)


@given(st.text(max_size=20), st.sampled_from(["FLAT", "COMPOSITE"]))
def test_any_text_gives_devices_that_exist(mask: str, hierarchy: str) -> None:
    for device in evaluate_ze_mask(mask, [2, 1], hierarchy):
        assert device.tiles and set(device.tiles) <= set(range([2, 1][device.card]))
