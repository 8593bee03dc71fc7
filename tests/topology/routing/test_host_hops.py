"""Ways over one and over several levels of NVSwitches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breaking import break_fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.explain import trace
from clusterlab.topology.routing.policy import StaticHash


def two_levels(*, upper: int = 4, links: int = 2, GBps: float | None = 10.0) -> Fabric:
    """Two hosts of a GPU and two NVSwitches, ``links`` from each of these to each of the upper ones."""
    devices = [Device(f"up{i}", "nvswitch") for i in range(upper)]
    cables = []
    for host in ("a", "b"):
        devices.append(Device(f"{host}/gpu0", "gpu", host=host))
        for s in range(2):
            switch = f"{host}/nvswitch{s}"
            devices.append(Device(switch, "nvswitch", host=host))
            cables.append((f"{host}/gpu0", switch, 8))
            cables += [(switch, f"up{i}", links) for i in range(upper)]
    wired = tuple(
        Link(x, y, "nvlink", GBps, multiplicity=n)
        for a, b, n in cables
        for x, y in ((a, b), (b, a))
    )
    return Fabric("levels", tuple(devices), wired)


def route(fabric: Fabric, *broken: str) -> tuple[float | None, list[tuple[str, str, int]]]:
    found = trace(
        break_fabric(fabric, list(broken)) if broken else fabric, "a/gpu0", "b/gpu0", StaticHash()
    )
    assert found.type == "NVL"
    return found.GBps, [(hop.src, hop.dst, hop.links) for hop in found.hops]


def test_each_level_of_nvswitches_is_named_with_its_links() -> None:
    assert route(two_levels()) == (
        160,
        [
            ("a/gpu0", "a/nvswitch[0-1]", 16),
            ("a/nvswitch[0-1]", "up[0-3]", 16),
            ("up[0-3]", "b/nvswitch[0-1]", 16),
            ("b/nvswitch[0-1]", "b/gpu0", 16),
        ],
    )


@pytest.mark.parametrize(("upper", "GBps"), [(4, 80), (2, 40), (1, 20)])
def test_the_narrowest_level_decides(upper: int, GBps: float) -> None:
    assert route(two_levels(upper=upper, links=1))[0] == GBps


def test_only_live_links_of_a_level_count() -> None:
    GBps, hops = route(two_levels(), "up[0-2]")
    assert GBps == 40
    assert hops[1] == ("a/nvswitch[0-1]", "up3", 4)


def test_switches_that_do_not_meet_carry_less_than_each_level_by_itself() -> None:
    # up0 has half its links to a, up1 half of those to b: each level has 6 of 8, but only 4 go through
    fabric = two_levels(upper=2, links=2)
    thin = {
        ("a/nvswitch0", "up0"),
        ("a/nvswitch1", "up0"),
        ("b/nvswitch0", "up1"),
        ("b/nvswitch1", "up1"),
    }
    links = tuple(
        replace(x, health=0.5) if {(x.src, x.dst), (x.dst, x.src)} & thin else x
        for x in fabric.links
    )
    whole = replace(fabric, links=links)
    GBps, hops = route(whole)
    assert GBps == 40
    assert [links for *_, links in hops] == [16, 8, 8, 16]
    assert trace(whole, "a/gpu0", "b/gpu0", StaticHash()).hops[1].GBps == 60


def test_an_unknown_rate_stays_unknown() -> None:
    assert route(two_levels(GBps=None))[0] is None


def test_every_hop_begins_where_the_last_one_ended_and_has_links() -> None:
    pod = load_fabric("nvlink-pod-256")
    whole = trace(pod, "n0/gpu0", "n5/gpu3", StaticHash())
    broken = trace(break_fabric(pod, ["nvlswitch[0-34]"]), "n0/gpu0", "n5/gpu3", StaticHash())
    for found in (whole, broken):
        assert len(found.hops) == 4
        assert [hop.src for hop in found.hops[1:]] == [hop.dst for hop in found.hops[:-1]]
        assert all(hop.links and hop.GBps for hop in found.hops)
    assert whole.GBps == pytest.approx(18 * 20.6)
    assert broken.GBps == pytest.approx(2 * 20.6)
    inside = trace(pod, "n0/gpu0", "n0/gpu3", StaticHash())
    assert [hop.dst for hop in inside.hops] == ["n0/nvswitch[0-3]", "n0/gpu3"]
