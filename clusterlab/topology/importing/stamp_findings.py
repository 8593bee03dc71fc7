"""What a node's file and the network's tell differently of the same NICs, host by host. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.topology.checks.evidence import bounded
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.shapes import HostShape
from clusterlab.topology.summary import serving_nics

_ALIKE = 0.95
"""Rates further apart than this are different: 7 GB/s of an FDR port are 6.8 after line coding."""

_NETWORK = ("ib", "ethernet", "network")

Places = Mapping[str, Mapping[str, str]]
"""Host → the node's NIC (local name) → the network's device that is it."""


@dataclass(frozen=True)
class Node:
    """One host under local names."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]


def plain_guid(device: Device) -> str | None:
    """A device's GUID without what tools write around it."""
    return device.guid.lower().removeprefix("0x").replace(":", "") if device.guid else None


def hosts_unlike_node(unlike: set[str], places: Places) -> list[Finding]:
    """Hosts that were left out for having far fewer of the node's NICs than most."""
    if not unlike:
        return []
    usual = Counter(len(own) for own in places.values()).most_common(1)[0][0]
    by_count: defaultdict[int, list[str]] = defaultdict(list)
    for host in unlike:
        by_count[len(places[host])].append(host)
    return [
        Finding(
            code="host_unlike_node",
            severity=Severity.WARNING,
            evidence=tuple(
                f"{fold_hosts(hosts)}: {count} of the {usual} NICs that most hosts share with the node; "
                "no GPUs were put there"
                for count, hosts in sorted(by_count.items())
            ),
            fix="if they are such nodes, give Slurm's topology as well: what it names is taken",
        )
    ]


def disagreements_with_node(
    inside: Node, node: Fabric, network: Fabric, places: Places
) -> list[Finding]:
    """All findings on NICs that are, or are not, on both sides. ``inside`` is ``node`` under local names."""
    return [
        *_rates(inside, node, network, places),
        *_rails(inside, network, places),
        *_absent(inside, places),
        *_extra(network, places),
        *_assumed(inside, network, places),
    ]


def _rates(inside: Node, node: Fabric, network: Fabric, places: Places) -> Iterator[Finding]:
    """The node's rates of a port and its PCIe link beside what the network's cable carries."""
    ports, slots = _port_rates(node), _slot_rates(inside)
    differ: defaultdict[tuple[str, float, float], int] = defaultdict(int)
    narrow: defaultdict[tuple[str, float, float], int] = defaultdict(int)
    for own in places.values():
        for nic, device in own.items():
            cable = _cable_rate(network, device)
            if cable is None:
                continue
            port, slot = ports.get(nic), slots.get(nic)
            if port is not None and min(port, cable) < _ALIKE * max(port, cable):
                differ[nic, port, cable] += 1
            if slot is not None and slot < _ALIKE * cable:
                narrow[nic, slot, cable] += 1
    of = len(places)
    if differ:
        yield Finding(
            code="rates_disagree",
            severity=Severity.WARNING,
            evidence=bounded(
                [
                    f"{nic}: {port:g} GB/s in {node.origin or 'the node'}, {cable:g} GB/s in "
                    f"{network.origin or 'the network'} on {hosts} of {of} hosts"
                    for (nic, port, cable), hosts in sorted(differ.items())
                ],
                "NICs",
            ),
            fix="the network's rate was taken: is the node's file of these hosts, and of this generation?",
        )
    if narrow:
        yield Finding(
            code="slot_slower_than_port",
            severity=Severity.WARNING,
            evidence=bounded(
                [
                    f"{nic}: its PCIe link carries {slot:g} GB/s, its port {cable:g} GB/s on {hosts} of "
                    f"{of} hosts"
                    for (nic, slot, cable), hosts in sorted(narrow.items())
                ],
                "NICs",
            ),
            fix="the port cannot be filled: look at the slot's width and speed (lspci -vv), or at "
            "whether the node's file is of these hosts",
        )


def _port_rates(node: Fabric) -> dict[str, float]:
    """NIC (local name) → what the node's file says its port carries."""
    prefix = f"{node.hosts[0]}/"
    return {
        link.src.removeprefix(prefix): link.GBps
        for nic in node.of_kind("nic")
        for link in node.links_from(nic.name)
        if link.link_class in _NETWORK and link.GBps is not None
    }


def _slot_rates(inside: Node) -> dict[str, float]:
    """NIC → the wire rate of its PCIe link: what software gets of a slot is a little less than of a port."""
    nics = {d.name for d in inside.devices if d.kind == "nic"}
    return {
        link.src: rate
        for link in inside.links
        if link.src in nics
        and link.link_class == "pcie"
        and (rate := link.wire_GBps if link.wire_GBps is not None else link.GBps) is not None
    }


def _cable_rate(network: Fabric, nic: str) -> float | None:
    rates = [k.GBps for k in network.links_from(nic) if k.GBps is not None]
    return max(rates, default=None)


def _rails(inside: Node, network: Fabric, places: Places) -> Iterator[Finding]:
    """NICs on a rail that serve storage by the node's file, or that are no GPU's nearest there."""
    serving = set(serving_nics(HostShape(("",), inside.devices, inside.links)))
    known = {d.name: d for d in inside.devices}
    rails: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for own in places.values():
        for nic, device in own.items():
            rail = network.device(device).rail
            role = known[nic].role
            odd = role not in (None, "compute") or (serving and nic not in serving)
            if rail is not None and odd:
                rails[nic][rail] += 1
    if rails:
        yield Finding(
            code="rail_on_other_nic",
            severity=Severity.WARNING,
            evidence=bounded(
                [
                    f"{nic}: on rail {', '.join(map(str, sorted(on)))} of {on.total()} hosts; "
                    + (
                        f"it serves {role} by the node's file"
                        if (role := known[nic].role) not in (None, "compute")
                        else "no GPU's nearest NIC in the node's file, as storage ports are not"
                    )
                    for nic, on in sorted(rails.items())
                ],
                "NICs",
            ),
            fix="compare GUIDs (ibstat) on one host: is the node's file of these hosts?",
        )


def _absent(inside: Node, places: Places) -> Iterator[Finding]:
    """NICs of the node that no host shows are as they should be (storage, front end); one that only some
    hosts lack is down there.
    """
    nics = [d.name for d in inside.devices if d.kind == "nic"]
    nowhere = [nic for nic in nics if not any(nic in own for own in places.values())]
    lacking: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, own in places.items():
        some = tuple(nic for nic in nics if nic not in own and nic not in nowhere)
        if some:
            lacking[some].append(host)
    if lacking:
        yield Finding(
            code="nic_not_in_network",
            severity=Severity.WARNING,
            evidence=bounded(
                [f"{', '.join(some)} on {fold_hosts(hosts)}" for some, hosts in lacking.items()],
                "groups of hosts",
            ),
            fix="other hosts show these NICs: here they are down, not cabled or named otherwise",
        )
    if nowhere:
        yield Finding(
            code="nic_not_in_network",
            severity=Severity.INFO,
            evidence=(f"{', '.join(nowhere)} on none of {len(places)} hosts",),
            fix="expected of storage and front-end NICs; compute NICs may be in another network's listing",
        )


def _extra(network: Fabric, places: Places) -> Iterator[Finding]:
    known = {device for own in places.values() for device in own.values()}
    extra = [d.name for h in places for d in network.on_host(h, "nic") if d.name not in known]
    # More than the node's own, or one that is on a rail: then the node is not that of these hosts.
    doubtful = len(extra) > len(known) or any(
        network.device(name).role == "compute" or network.device(name).rail is not None
        for name in extra
    )
    if extra:
        yield Finding(
            code="nic_not_in_node",
            severity=Severity.WARNING if doubtful else Severity.INFO,
            evidence=(f"{len(extra)} NICs, the first {', '.join(extra[:8])}",),
            fix="these hosts have NICs that the node's file does not; their place on PCIe is unknown"
            + (": give the file of one of these very hosts" if doubtful else ""),
        )


def _assumed(inside: Node, network: Fabric, places: Places) -> Iterator[Finding]:
    """Names that were taken to mean another: a script's HCA-<n> is the driver's mlx5_<n-1>."""
    guids = {d.name: plain_guid(d) for d in inside.devices}
    taken: Counter[tuple[str, str]] = Counter()
    for own in places.values():
        for nic, device in own.items():
            listed = network.device(device)
            name = listed.interface or listed.name.rpartition("/")[2]
            same = guids[nic] is not None and guids[nic] == plain_guid(listed)
            if name.lower().startswith("hca") and not same:
                taken[name, nic] += 1
    if taken:
        yield Finding(
            code="nic_names_assumed",
            severity=Severity.INFO,
            evidence=bounded(
                [
                    f"{name} is the node's {nic} on {hosts} of {len(places)} hosts"
                    for (name, nic), hosts in sorted(taken.items())
                ],
                "names",
            ),
            fix="scripts that name adapters HCA-<n> count from one, so HCA-1 was taken as mlx5_0 (and so "
            "on): compare one host's GUIDs (ibstat) with the listing",
        )
