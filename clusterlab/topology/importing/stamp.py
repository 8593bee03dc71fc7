"""One node's inside under every host of a network: the network's NICs take the node's places."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.topology.fabric import Fabric, device_at_host, link_at_host
from clusterlab.topology.importing.stamp_findings import (
    Node,
    disagreements_with_node,
    hosts_unlike_node,
    plain_guid,
)
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.repeated import Group, Repeated

_INDEX = re.compile(r"(?:mlx[45]_|HCA-)(\d+)", re.IGNORECASE)


def local_node(fabric: Fabric) -> Node:
    """The only host of ``fabric`` under local names. Raises UsageError for several hosts.

    What its file knows of the far side of a NIC (``network``, nothing more) is left out: the switches
    come from elsewhere. Other far ends, of links into the unknown, come along as the host's own.
    """
    if len(fabric.hosts) != 1:
        raise UsageError(
            f"{len(fabric.hosts)} hosts",
            where=fabric.origin or fabric.name,
            expected="a file of one node, which stands for all hosts of the network",
        )
    prefix = f"{fabric.hosts[0]}/"
    nics = {d.name for d in fabric.devices if d.kind == "nic"}
    beyond = {
        d.name
        for d in fabric.devices
        if d.kind == "external" and any(link.src in nics for link in fabric.links_to(d.name))
    }
    local = {d.name: d.name.removeprefix(prefix) for d in fabric.devices if d.name not in beyond}
    return Node(
        tuple(replace(d, name=local[d.name], host="") for d in fabric.devices if d.name in local),
        tuple(
            replace(x, src=local[x.src], dst=local[x.dst])
            for x in fabric.links
            if x.src in local and x.dst in local
        ),
    )


def stamp(
    node: Fabric, network: Fabric, members: Sequence[str] | None
) -> tuple[Fabric, list[Finding]]:
    """``network`` with ``node``'s inside in every host that has compute NICs (or is in ``members``).

    Hosts that have far fewer of the node's NICs than most are left as they are, unless they are members.
    Findings (``stamp_findings``) say what the node and the network tell differently.
    """
    inside = local_node(node)
    chosen, findings = _chosen(network, members)
    places = {host: places_of(inside, network.on_host(host, "nic")) for host in chosen}
    if members is None:
        unlike = _unlike(network, places)
        findings += hosts_unlike_node(unlike, places)
        chosen = [host for host in chosen if host not in unlike]
        places = {host: places[host] for host in chosen}
    if not any(places.values()):
        raise UsageError(
            "no NIC of the node is one of the network's",
            where=f"{node.origin} and {network.origin}",
            expected="equal GUIDs, or names such as mlx5_0 in both",
            fix="for nvidia-smi topo -m include the NIC legend",
        )
    groups: defaultdict[tuple[int | None, ...], list[str]] = defaultdict(list)
    for host in chosen:
        rails = tuple(_rail(network, places[host].get(d.name)) for d in inside.devices)
        groups[rails].append(host)
    renamed = {old: f"{host}/{local}" for host in chosen for local, old in places[host].items()}
    devices: list[Group[Device]] = []
    links: list[Group[Link]] = []
    for rails, hosts in groups.items():
        rail_of = {d.name: r for d, r in zip(inside.devices, rails, strict=True)}
        devices.append(Group(tuple(hosts), _without_nics(inside, rail_of)))
        links.append(Group(tuple(hosts), inside.links))
    fabric = replace(
        network,
        name="merged",
        devices=Repeated(devices, _nics(inside, network, chosen, places), device_at_host),
        links=Repeated(
            links,
            [
                replace(x, src=renamed.get(x.src, x.src), dst=renamed.get(x.dst, x.dst))
                for x in network.links
            ],
            link_at_host,
        ),
        origin=f"{node.origin} + {network.origin}",
        digest="",
    )
    return fabric, [*findings, *disagreements_with_node(inside, node, network, places)]


def _chosen(network: Fabric, members: Sequence[str] | None) -> tuple[list[str], list[Finding]]:
    """The hosts to fill in, by the network's names, and the members it does not show."""
    compute = [
        h
        for h in network.hosts
        if any(d.role in (None, "compute") for d in network.on_host(h, "nic"))
    ]
    if members is None:
        return [h for h in compute if _is_compute(network, h)], []
    known = {**{_short(h): h for h in compute}, **{h: h for h in compute}}
    chosen = [known[name] for m in members if (name := m if m in known else _short(m)) in known]
    missing = [m for m in members if m not in known and _short(m) not in known]
    if not chosen:
        raise UsageError(
            "Slurm's nodes and the network's hosts share no name",
            expected="the same host names in both files",
            fix=f"Slurm: {', '.join(list(members)[:3])}; network: {', '.join(compute[:3])}",
        )
    findings = []
    if missing:
        findings.append(
            Finding(
                code="host_not_in_network",
                severity=Severity.WARNING,
                evidence=(f"{len(missing)} of {len(members)}: {fold_hosts(missing)}",),
                fix="check that these nodes are up, cabled and named in their HCA's node description",
            )
        )
    return list(dict.fromkeys(chosen)), findings


def _is_compute(network: Fabric, host: str) -> bool:
    """Whether any of the host's NICs is known to be compute; where no role is known, all are."""
    nics = network.on_host(host, "nic")
    return any(d.role == "compute" for d in nics) or all(d.role is None for d in nics)


def _unlike(network: Fabric, places: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Hosts with fewer than half of the node's NICs that most hosts have; where some are known to compute
    and this one is not, with any fewer: a login or management host with the same adapters.
    """
    if not places:
        return set()
    usual = Counter(len(own) for own in places.values()).most_common(1)[0][0]
    known = {
        host: any(d.role == "compute" for d in network.on_host(host, "nic")) for host in places
    }
    strict = any(known.values())
    return {
        host
        for host, own in places.items()
        if 2 * len(own) < usual or (strict and not known[host] and len(own) < usual)
    }


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def places_of(node: Node, nics: Sequence[Device]) -> dict[str, str]:
    """The node's NIC (local name) → the network's device that is it: by GUID, else by name."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for by in (plain_guid, _interface):
        there = {key: d.name for d in nics if (key := by(d)) and d.name not in taken}
        for d in node.devices:
            key = by(d)
            if d.kind == "nic" and d.name not in found and key and key in there:
                found[d.name] = there[key]
                taken.add(there[key])
    return found


def _interface(device: Device) -> str | None:
    """What both sides call a NIC: the driver's number where the name has one (HCA-1 is mlx5_0)."""
    name = device.interface or device.name.rpartition("/")[2]
    match = _INDEX.fullmatch(name)
    if match is None:
        return name.lower()
    number = int(match.group(1))
    return f"mlx5_{number - 1 if name.lower().startswith('hca') else number}"


def _listed_as(listed: Device, known: Device) -> str | None:
    """What the network's listing calls the NIC, where the node has another name for it."""
    name = listed.interface or listed.name.rpartition("/")[2]
    return None if name in (known.interface, known.name) else name


def _rail(network: Fabric, nic: str | None) -> int | None:
    return None if nic is None else network.device(nic).rail


def _without_nics(node: Node, rail_of: Mapping[str, int | None]) -> tuple[Device, ...]:
    """The node's devices but the NICs that the network shows; a GPU gets the rail of its own NIC."""
    near = _own_nic(node)
    return tuple(
        replace(d, rail=rail_of.get(near.get(d.name, ""))) if d.kind == "gpu" else d
        for d in node.devices
        if d.kind != "nic"
    )


def _own_nic(node: Node) -> dict[str, str]:
    """GPU → its NIC where exactly one is nearest, by steps over PCIe."""
    ahead: defaultdict[str, list[str]] = defaultdict(list)
    for link in node.links:
        if link.link_class == "pcie":
            ahead[link.src].append(link.dst)
    nics = {d.name for d in node.devices if d.kind == "nic"}
    own = {}
    for gpu in (d.name for d in node.devices if d.kind == "gpu"):
        frontier, seen = [gpu], {gpu}
        while frontier and not nics & set(frontier):
            frontier = [n for name in frontier for n in ahead[name] if n not in seen]
            seen.update(frontier)
        found = nics & set(frontier)
        if len(found) == 1:
            own[gpu] = found.pop()
    return own


def _nics(
    node: Node, network: Fabric, chosen: Sequence[str], places: Mapping[str, Mapping[str, str]]
) -> list[Device]:
    """All single devices: the network's, those in a node's place with the node's facts added, and the
    node's NICs that a host does not show.
    """
    of_node = {d.name: d for d in node.devices if d.kind == "nic"}
    placed = {old: (host, local) for host in chosen for local, old in places[host].items()}
    found = []
    for d in network.devices:
        if d.name not in placed:
            found.append(d)
            continue
        host, local = placed[d.name]
        known = of_node[local]
        found.append(
            replace(
                d,
                name=f"{host}/{local}",
                model=d.model or known.model,
                numa=known.numa,
                pci=known.pci,
                role=d.role or known.role,
                interface=known.interface or d.interface,
                cage=known.cage,
                transport=d.transport or known.transport,
                listed_as=_listed_as(d, known),
            )
        )
    for host in chosen:
        taken = {d.name for d in network.on_host(host)}
        for local, d in of_node.items():
            if local not in places[host] and f"{host}/{local}" not in taken:
                found.append(device_at_host(d, host))
    return found
