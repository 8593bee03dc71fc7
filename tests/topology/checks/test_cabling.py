"""The evidence names ports and devices as the listing did, whatever became of the fabric since."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link


def site(*, crossed: bool = True, hosts: int = 6, rails: int = 2) -> Fabric:
    """Hosts with a NIC on each leaf; host h3's first two cables are exchanged."""
    devices = [Device(f"leaf{i}", "leaf") for i in range(rails)]
    links: list[Link] = []
    for host in range(hosts):
        for number in range(rails):
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
            at = f"leaf{1 - number if crossed and host == 3 and number < 2 else number}"
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


def test_hosts_without_a_port_are_listed_in_order_and_folded() -> None:
    fabric = site(crossed=False, hosts=14, rails=3)
    lost = {f"h{host}/nic1" for host in (4, 2, 3)}
    cut = replace(
        fabric,
        devices=tuple(d for d in fabric.devices if d.name not in lost),
        links=tuple(k for k in fabric.links if not {k.src, k.dst} & lost),
    )
    (finding,) = cabling(cut)
    assert finding.code == "host_missing_a_rail"
    assert finding.evidence[0].endswith("leaf1: h[2-4]")
