from __future__ import annotations

from dataclasses import replace

import pytest

from clusterlab.core.findings import Severity
from clusterlab.cost.nccl.graphs.rates import cables, inside
from clusterlab.topology.checks.unknown import unknown
from clusterlab.topology.design.load import load_fabric
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link, LinkClass
from tests.topology.clusters import small


def test_links_without_a_bandwidth_are_told_by_kind_of_end() -> None:
    assert unknown(small()) == []
    (finding,) = unknown(load_fabric("lab-2x4"))
    assert finding.severity == Severity.INFO
    assert finding.evidence[:2] == (
        "8 pcie links between cpu and gpu, such as n0/gpu0/cpu0",
        "4 memory links between cpu and cpu, such as n0/cpu0/cpu0",
    )


def joined(link_class: LinkClass, a: str, b: str, wire_GBps: float | None = None) -> Fabric:
    devices = [Device(f"n0/{kind}{i}", kind, host="n0") for i, kind in enumerate((a, b))]  # type: ignore[arg-type]
    link = Link(devices[0].name, devices[1].name, link_class, None, wire_GBps=wire_GBps)
    return Fabric("two", tuple(devices), (link, replace(link, src=link.dst, dst=link.src)))


@pytest.mark.parametrize(
    ("link_class", "ends", "says"),
    [
        ("pcie", ("gpu", "cpu"), "{:g} GB/s"),
        ("xgmi", ("gpu", "gpu"), "{:g} GB/s"),
        ("c2c", ("gpu", "cpu"), "{:g} GB/s"),
        ("ib", ("nic", "leaf"), "{0:.0f} Gb/s"),
    ],
)
def test_what_it_says_predictions_count_is_what_they_count(
    link_class: LinkClass, ends: tuple[str, str], says: str
) -> None:
    fabric = joined(link_class, *ends)
    (finding,) = unknown(fabric)
    if "nic" in ends:
        counted = 8 * cables(fabric)(fabric.links[0])
    else:
        counted = inside(80, "intel", "unknown")(fabric.links[0])
    assert says.format(counted) in finding.fix
    assert "refused" not in finding.fix
    assert "a bound that they decide is not given" in finding.fix


def test_a_known_wire_rate_says_more_than_the_class() -> None:
    (finding,) = unknown(joined("pcie", "gpu", "cpu", wire_GBps=63.0))
    assert "12 GB/s" not in finding.fix
    assert "share of a wire rate" in finding.fix
    assert "bound" not in finding.fix
    assert inside(90, "intel", "H100")(joined("pcie", "gpu", "cpu", 63.0).links[0]) == 48.0
