"""ASTRA-sim's dimensions of fabrics, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.formats.astra_sim import Dimension, Shape, parse_astra_sim
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.exporting.astra import astra, dimensions_of
from clusterlab.topology.importing.astra_sim import read_astra_sim
from tests.topology.exporting.networks import rails

SHAPES: list[Shape] = ["Ring", "FullyConnected", "Switch"]


def test_a_rail_fabric_has_a_dimension_per_tier() -> None:
    assert dimensions_of(rails(units=2, hosts=3, gpus=4, spines=2)) == [
        Dimension("Switch", 4, 360.0, 1.0),
        # A NIC of 50 GB/s per GPU; GPU, NIC and leaf are two links apart.
        Dimension("Switch", 3, 50.0, 2.0),
        # 4 leaves with 2 uplinks of 25 GB/s for 12 GPUs.
        Dimension("Switch", 2, round(4 * 2 * 25.0 / 12, 9), 3.0),
    ]


@pytest.mark.parametrize(
    ("design", "expected"),
    [
        ("superpod-b200-64su", [("Switch", 8), ("Switch", 32), ("Switch", 8), ("Switch", 8)]),
        ("superpod-gb200", [("Switch", 72), ("Switch", 8)]),
        ("nvlink-pod-256", [("Switch", 8), ("Switch", 32)]),
        ("mi300x", [("FullyConnected", 8)]),
        ("h100-1", [("Ring", 1)]),
    ],
)
def test_shipped_designs_by_dimension(design: str, expected: list[tuple[str, int]]) -> None:
    assert [(d.shape, d.count) for d in dimensions_of(load_fabric(design))] == expected


def test_the_tapered_pod_has_half_its_rate_outside_a_host() -> None:
    inside, outside = dimensions_of(load_fabric("nvlink-pod-256"))
    assert inside.GBps is not None
    assert outside.GBps == pytest.approx(inside.GBps / 2)


def test_what_is_unknown_is_left_to_be_filled_in() -> None:
    text = astra(rails(latency_us=None))
    assert "latency: [ tbd, tbd, tbd ]" in text
    assert "# tbd" in text
    assert "tbd" not in astra(rails())


@pytest.mark.parametrize(
    ("fabric", "what"),
    [
        ("superpod-h100-2su", "groups of tier 1 in size differ"),
        ("dgx-1v", "GPU links of n0 differ"),
        ("lab-2x4", "share no switch and no links"),
    ],
)
def test_what_is_not_symmetric_is_refused_and_named(fabric: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        astra(load_fabric(fabric))


def test_a_slower_leaf_is_not_symmetric() -> None:
    fabric = rails()
    links = tuple(
        replace(x, health=0.5) if (x.src, x.dst) == ("n0/nic0", "leaf0") else x
        for x in fabric.links
    )
    with pytest.raises(UsageError, match="rates into tier 1 differ"):
        astra(replace(fabric, links=links))


_RATES = st.one_of(st.none(), st.integers(1, 900).map(float))


@st.composite
def _dimensions(draw: st.DrawFn) -> list[Dimension]:
    """One dimension inside hosts and perhaps one outside, as ASTRA-sim's files have them."""

    def one(least: int) -> Dimension:
        shape, count = draw(st.sampled_from(SHAPES)), draw(st.integers(least, 6))
        if shape == "FullyConnected" and count in (2, 3):
            shape = "Ring"  # the same links
        return Dimension(shape, count, draw(_RATES), draw(st.one_of(st.none(), st.just(0.5))))

    return [one(2)] + ([one(2)] if draw(st.booleans()) else [])


@given(_dimensions())
def test_dimensions_come_back(dimensions: list[Dimension]) -> None:
    rows = (
        f"topology: [{', '.join(d.shape for d in dimensions)}]\n"
        f"npus_count: [{', '.join(str(d.count) for d in dimensions)}]\n"
        f"bandwidth: [{', '.join('tbd' if d.GBps is None else str(d.GBps) for d in dimensions)}]\n"
        f"latency: [{', '.join('tbd' if d.latency_us is None else '500' for d in dimensions)}]\n"
    )
    fabric = read_astra_sim(rows, file="x.yml").fabric
    found = parse_astra_sim(astra(fabric), file="y.yml")
    assert found == tuple(dimensions)
