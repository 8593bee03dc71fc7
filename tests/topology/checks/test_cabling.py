"""The evidence names ports and devices as the listing did, whatever became of the fabric since."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link


def site(*, crossed: bool = True) -> Fabric:
    """Six hosts with two NICs on two leaves; host h3's cables are exchanged."""
    devices = [Device(f"leaf{i}", "leaf") for i in range(2)]
    links: list[Link] = []
    for host in range(6):
        for number in range(2):
            nic = f"h{host}/nic{number}"
            devices.append(
                Device(
                    nic,
                    "nic",
                    host=f"h{host}",
                    guid=f"0x{host}{number}",
                    interface=f"mlx5_{number}",
                    listed_as=f"HCA-{number + 1}",
                )
            )
            at = f"leaf{1 - number if crossed and host == 3 else number}"
            links.append(Link(nic, at, "ib", 50.0, ports=(1,)))
            links.append(Link(at, nic, "ib", 50.0, ports=(10 + host,)))
    return Fabric("site", tuple(devices), tuple(links))


def test_crossed_cables_are_told_with_ports_and_the_listings_names() -> None:
    (finding,) = cabling(site())
    assert finding.code == "cross_wired_rails"
    assert "leaf1 port 13 – host h3 device HCA-1 (nic0, guid 0x30)" in finding.evidence[0]
    assert finding.fix == "exchange the two cables in leaf1 port 13 and leaf0 port 13"
    assert cabling(site(crossed=False)) == []


def test_without_ports_and_other_names_the_evidence_says_what_is_known() -> None:
    known = site()
    bare = replace(
        known,
        devices=tuple(replace(d, listed_as=None) for d in known.devices),
        links=tuple(replace(k, ports=()) for k in known.links),
    )
    (finding,) = cabling(bare)
    assert "leaf1 – host h3 device mlx5_0 (guid 0x30)" in finding.evidence[0]
