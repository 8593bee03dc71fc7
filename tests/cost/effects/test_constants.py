"""The constants' file: each kind of damage is one error that names the place."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.cost.effects.constants import SHIPPED, read_effects

WHOLE = SHIPPED.read_text(encoding="utf-8")


def test_the_shipped_file_is_whole() -> None:
    table = read_effects(WHOLE, file="constants.yaml")
    assert table.source
    rates = {n: k for c in table.chips.values() for n, k in c.items() if "rate" in n}
    assert all(0.5 < share < 1.5 for share in rates.values())


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda s: s.replace("  hop_ll_us:", "  hop_lll_us:"), "hop_lll_us"),
        (lambda s: re.sub(r"  hop_ll_us: .*\n", "", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{volta: )[\d.e+-]+", r"\1fast", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{volta: )[\d.e+-]+", r"\g<1>-1.0", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{volta: )[\d.e+-]+", r"\1.nan", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{volta: )[\d.e+-]+", r"\1.inf", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{volta: )[\d.e+-]+", r"\1true", s), "hop_ll_us"),
        (lambda s: re.sub(r"(hop_ll_us: \{)volta: [\d.e+-]+, ", r"\1", s), "volta"),
        (lambda s: re.sub(r"(hop_ll_us: \{)volta", r"\1vulta", s), "vulta"),
        (lambda s: s.replace("networks:\n", "network:\n"), "network"),
        (lambda s: s.replace("shared:\n", "shared: 3\nrest:\n"), "rest"),
        (lambda s: re.sub(r"  crowding: .*\n", "", s), "crowding"),
        (lambda s: s + "\n}", "constants.yaml"),
        (lambda s: "", "constants.yaml"),
    ],
)  # fmt: skip
def test_damage_is_named(damage: Callable[[str], str], named: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_effects(damage(WHOLE), file="constants.yaml")
    message = str(caught.value)
    assert named in message
    assert "constants.yaml" in message
    assert "\n" not in message
