"""What a cable is said to carry counts, on NICs as between switches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.cost.flows.crossing import Crossing, crossings
from clusterlab.topology.fabric import Fabric
from tests.cost.flows.test_crossing import gpus, pods


def at(fabric: Fabric, kinds: set[str], GBps: float | None, wire: float | None) -> Fabric:
    """``fabric`` with the rates of all cables between devices of ``kinds`` changed."""
    changes = {
        (k.src, k.dst): [replace(k, GBps=GBps, wire_GBps=wire)]
        for k in fabric.network_links
        if {fabric.kind_of(k.src), fabric.kind_of(k.dst)} == kinds
    }
    return fabric.with_links(changes)


def share(fabric: Fabric) -> Crossing:
    return crossings(fabric, [gpus(fabric)], "all")[0]


@pytest.mark.parametrize(
    ("GBps", "left"), [(50.0, 1.0), (48.0, 1.0), (46.0, 1.0), (23.0, 0.5), (None, 1.0)]
)
def test_a_port_below_its_ordinary_share_slows(GBps: float | None, left: float) -> None:
    whole = pods(8, rails=2, uplinks=4, spines=2, per_su=4)
    assert share(at(whole, {"nic", "leaf"}, GBps, 50.0)).share == pytest.approx(left)


@pytest.mark.parametrize("wire", [50.0, 12.5])
def test_an_unknown_rate_is_that_of_the_signal(wire: float) -> None:
    whole = pods(8, rails=2, uplinks=4, spines=2, per_su=4)
    said = at(whole, {"leaf", "spine"}, wire * 0.96, wire)
    unknown = at(whole, {"leaf", "spine"}, None, wire)
    assert share(unknown) == share(said)
    assert (share(unknown).share < 1) == (wire < 25)


def test_what_nobody_knows_limits_nothing() -> None:
    whole = pods(8, rails=2, uplinks=4, spines=2, per_su=4)
    assert share(at(whole, {"leaf", "spine"}, None, None)).share == 1
