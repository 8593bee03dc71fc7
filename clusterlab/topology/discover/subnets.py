"""Networks told from addresses: one leaf for all switches of a subnet, and only where that says something.

Pure. For RoCE a subnet is an IP network; for InfiniBand the subnet prefix of its GIDs (which fabrics
leave at one default, unless each rail or plane is a fabric of its own).
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.discover.assemble import nic_device
from clusterlab.topology.discover.facts import MachineFacts, NicFact, PortFact
from clusterlab.topology.discover.rates import port_rate
from clusterlab.topology.parts import Device, Link

_MOST_SHOWN = 8


@dataclass(slots=True)
class Network:
    """Switches that stand for subnets, the NICs' links to them, and what is not known."""

    devices: list[Device] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def subnet_network(machines: Sequence[MachineFacts]) -> Network:
    """A leaf for each subnet that NICs of two or more machines are in, with the NICs on it.

    What is inside that network (how many switches, what they carry) stays unknown, and is said.
    """
    members: defaultdict[str, list[tuple[MachineFacts, NicFact, PortFact]]] = defaultdict(list)
    for facts, nic, port in _ports_up(machines):
        subnet = _subnet(port)
        if subnet is not None:
            members[subnet].append((facts, nic, port))
    network = Network()
    for subnet in sorted(members, key=_subnet_order):
        here = members[subnet]
        if len({facts.host for facts, _, _ in here}) < 2:
            continue
        leaf = f"subnet-{subnet.replace('/', '_').replace(':', '.')}"
        network.devices.append(Device(leaf, "leaf", model=f"all switches of {subnet}, as one"))
        for facts, nic, port in here:
            network.links += _cable(nic_device(facts, nic), leaf, port)
    on_leaf = {link.src for link in network.links}
    rdma = [nic_device(m, n) for m, n, _ in _ports_up(machines) if n.rdma]
    loose = list(dict.fromkeys(name for name in rdma if name not in on_leaf))
    if network.devices:
        network.findings.append(_stands_in([d.name for d in network.devices]))
    if loose and len(machines) > 1:
        network.findings.append(_no_network(loose))
    return network


def _ports_up(machines: Sequence[MachineFacts]) -> Iterator[tuple[MachineFacts, NicFact, PortFact]]:
    """Ports that are up; where RDMA devices are, Ethernet functions without RDMA serve other traffic."""
    with_rdma = any(nic.rdma and nic.up for facts in machines for nic in facts.nics)
    for facts in machines:
        for nic in facts.nics:
            for port in nic.ports:
                if port.up and (nic.rdma or not with_rdma):
                    yield facts, nic, port


def _subnet(port: PortFact) -> str | None:
    """The port's first IPv4 network, else its first IPv6 one, else InfiniBand's subnet prefix."""
    if port.layer == "infiniband":
        return None if port.gid_prefix in (None, DEFAULT_PREFIX) else f"ib-{port.gid_prefix}"
    fours = [subnet for subnet in port.subnets if ":" not in subnet]
    return next(iter([*fours, *port.subnets]), None)


DEFAULT_PREFIX = "fe80000000000000"
"""The subnet prefix every InfiniBand fabric starts with: equal on two that never met."""


def _subnet_order(subnet: str) -> tuple[int, int, str]:
    if subnet.startswith("ib-"):
        return 0, int(subnet[3:], 16), subnet
    network = ipaddress.ip_network(subnet)
    return network.version, int(network.network_address), subnet


def _cable(nic: str, leaf: str, port: PortFact) -> tuple[Link, Link]:
    rate = port_rate(port.rate_Gbps)
    links = [
        Link(
            src=src,
            dst=dst,
            link_class="ib" if port.layer == "infiniband" else "ethernet",
            GBps=rate.GBps,
            wire_GBps=rate.wire_GBps,
            GBps_source=rate.GBps_source,
            wire_source=rate.wire_source,
        )
        for src, dst in ((nic, leaf), (leaf, nic))
    ]
    return links[0], links[1]


def _stands_in(leaves: Sequence[str]) -> Finding:
    return Finding(
        "network_unseen",
        Severity.INFO,
        (
            f"{_some(leaves)}: one device for all switches of a subnet; what lies inside, and what it"
            " carries, is not known",
        ),
        "give the switches' listing where there is one (--ibnetdiscover)",
    )


def _no_network(nics: Sequence[str]) -> Finding:
    return Finding(
        "rails_unknown",
        Severity.WARNING,
        (f"nothing here says which switches these NICs are on: {_some(nics)}",),
        "InfiniBand: run ibnetdiscover on a node and give its output with --ibnetdiscover FILE; RoCE:"
        " give every NIC an address of its rail's subnet",
    )


def _some(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more
