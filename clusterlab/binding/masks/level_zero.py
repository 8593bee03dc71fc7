"""ZE_AFFINITY_MASK under ZE_FLAT_DEVICE_HIERARCHY.

Source: Level Zero specification, core programming guide, "Affinity Mask" and "Device Hierarchy" (1.7 and
later); what it leaves open follows intel/compute-runtime, execution_environment.cpp
(parseAffinityMask), read in 2026.

COMPOSITE counts cards, and an entry is ``card`` or ``card.tile``. FLAT and COMBINED count tiles, all
cards' tiles in a row, and an entry is one number; ``x.y`` is passed over there. An entry that names
nothing is passed over; the order of entries does not matter: devices keep the driver's order. A mask
that is unset, empty or ``default`` does not mask. A card of which one tile is left is that tile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from clusterlab.core.digits import saturated

Hierarchy = Literal["FLAT", "COMPOSITE", "COMBINED"]

_ENTRY = re.compile(r"\s*([0-9]+)(?:\.([0-9]+))?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class LevelZeroDevice:
    """One device handle: the card's position and the tiles of it that the handle covers."""

    card: int
    tiles: tuple[int, ...]


def evaluate_ze_mask(
    mask: str | None, tiles_per_card: Sequence[int], hierarchy: str | None = None
) -> tuple[LevelZeroDevice, ...]:
    """The device handles zeDeviceGet returns for cards of ``tiles_per_card`` tiles each.

    ``hierarchy`` is ZE_FLAT_DEVICE_HIERARCHY; anything but the three words means the default, FLAT.
    """
    every = [(card, tile) for card, tiles in enumerate(tiles_per_card) for tile in range(tiles)]
    masked = mask is not None and mask not in ("", "default")
    if hierarchy != "COMPOSITE":
        return tuple(
            LevelZeroDevice(card, (tile,))
            for position, (card, tile) in enumerate(every)
            if not masked or position in _flat_positions(str(mask))
        )
    kept = set(_composite_tiles(str(mask), tiles_per_card) if masked else every)
    by_card = [
        (card, tuple(tile for tile in range(tiles) if (card, tile) in kept))
        for card, tiles in enumerate(tiles_per_card)
    ]
    return tuple(LevelZeroDevice(card, tiles) for card, tiles in by_card if tiles)


def _flat_positions(mask: str) -> set[int]:
    found = (_ENTRY.fullmatch(entry) for entry in mask.split(","))
    return {saturated(match[1]) for match in found if match and match[2] is None}


def _composite_tiles(mask: str, tiles_per_card: Sequence[int]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for entry in mask.split(","):
        match = _ENTRY.fullmatch(entry)
        if match is None or saturated(match[1]) >= len(tiles_per_card):
            continue
        card = saturated(match[1])
        tiles = range(tiles_per_card[card])
        kept += [(card, tile) for tile in tiles if match[2] is None or tile == saturated(match[2])]
    return kept
