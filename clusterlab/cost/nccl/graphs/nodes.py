"""The nodes of a communicator: which hosts are one for NCCL, and which nodes are equal.

Hosts on the same NVSwitches are one node (MNNVL); equal nodes are searched once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.repeated import Repeated
from clusterlab.topology.routing.nics import links_out


@dataclass(frozen=True, slots=True)
class Node:
    """``hosts`` with the ranks' GPUs on each, in the fabric's order."""

    hosts: tuple[str, ...]
    gpus: tuple[str, ...]


def nodes_of(fabric: Fabric, devices: Sequence[str], *, mnnvl: bool | None) -> list[Node]:
    """The nodes that ``devices`` (GPUs) are on, in the fabric's order of hosts."""
    on_host: defaultdict[str, list[str]] = defaultdict(list)
    for device in devices:
        on_host[fabric.host_of(device) or device].append(device)
    order = {host: i for i, host in enumerate(fabric.hosts)}
    hosts = sorted(on_host, key=lambda h: order.get(h, len(order)))
    islands = _islands(fabric, hosts) if mnnvl is not False else {}
    joined: dict[object, list[str]] = {}
    for host in hosts:
        joined.setdefault(islands.get(host, host), []).append(host)
    return [
        Node(tuple(own), tuple(g for h in own for g in _in_order(fabric, h, on_host[h])))
        for own in joined.values()
    ]


def _in_order(fabric: Fabric, host: str, gpus: Sequence[str]) -> list[str]:
    """As NCCL numbers them: by bus, which is the fabric's order."""
    if len(gpus) == 1 or fabric.find(gpus[0]) is None:
        return list(gpus)
    place = _local_order(fabric, host)
    return sorted(gpus, key=lambda g: place.get(g.partition("/")[2], 0))


def _local_order(fabric: Fabric, host: str) -> dict[str, int]:
    """Local GPU name → place on the host; of equal hosts worked out once."""
    group = fabric.devices.group_of.get(host) if isinstance(fabric.devices, Repeated) else None
    key = ("nccl gpu order", id(group) if group else host)
    if key not in fabric.memo:
        names = [d.name.partition("/")[2] for d in fabric.on_host(host, "gpu")]
        fabric.memo[key] = {name: i for i, name in enumerate(names)}
    found: dict[str, int] = fabric.memo[key]
    return found


def _islands(fabric: Fabric, hosts: Sequence[str]) -> dict[str, int]:
    """Host → the number of the NVLink domain that it shares with others; absent: no link leaves it."""
    key = "nccl nvlink islands"
    if key not in fabric.memo:
        fabric.memo[key] = _all_islands(fabric)
    known: dict[str, int] = fabric.memo[key]
    return {host: known[host] for host in hosts if host in known}


def _all_islands(fabric: Fabric) -> dict[str, int]:
    """One walk over the NVLinks that leave hosts (or join switches outside them)."""
    near: defaultdict[str, set[str]] = defaultdict(set)
    for link in fabric.network_links:
        if link.link_class in ("nvlink", "xgmi") and link.health > 0:
            a, b = (fabric.host_of(end) or end for end in (link.src, link.dst))
            near[a].add(b)
            near[b].add(a)
    island: dict[str, int] = {}
    for start in near:
        if start in island:
            continue
        number, queue = len(island), [start]
        island[start] = number
        while queue:
            for other in near[queue.pop()]:
                if other not in island:
                    island[other] = number
                    queue.append(other)
    return island


def kinds(fabric: Fabric, nodes: Sequence[Node]) -> dict[Hashable, Node]:
    """One node of each kind: the same inside, the same GPUs in use, the same cables left. The key tells the
    kind, for as long as the fabric lives.
    """
    content = _single_content(fabric)
    seen: dict[Hashable, Node] = {}
    for node in nodes:
        seen.setdefault(tuple(_host_kind(fabric, node, h, content) for h in node.hosts), node)
    return seen


def _host_kind(fabric: Fabric, node: Node, host: str, content: Mapping[str, Hashable]) -> Hashable:
    devices = fabric.devices.group_of.get(host) if isinstance(fabric.devices, Repeated) else None
    links = fabric.links.group_of.get(host) if isinstance(fabric.links, Repeated) else None
    prefix = f"{host}/"
    used = tuple(g.removeprefix(prefix) for g in node.gpus if g.startswith(prefix))
    inside = (id(devices), id(links), content.get(host))
    known: dict[str, Hashable] = fabric.memo.setdefault("nccl cables of hosts", {})
    if host not in known:
        names = _nic_names(fabric, host)
        known[host] = tuple(_cables(fabric, f"{prefix}{n}") for n in names)
    return inside, used, known[host]


def _nic_names(fabric: Fabric, host: str) -> tuple[str, ...]:
    """Local names of a host's NICs; of equal hosts worked out once."""
    group = fabric.devices.group_of.get(host) if isinstance(fabric.devices, Repeated) else None
    key = ("nccl nic names", id(group) if group else host)
    if key not in fabric.memo:
        names = (d.name.removeprefix(f"{host}/") for d in fabric.on_host(host, "nic"))
        fabric.memo[key] = tuple(names)
    found: tuple[str, ...] = fabric.memo[key]
    return found


def _single_content(fabric: Fabric) -> dict[str, Hashable]:
    """What hosts hold beside their template, with local names, and the NVLinks that leave them."""
    key = "nccl single content"
    if key not in fabric.memo:
        found: defaultdict[str, Counter[Hashable]] = defaultdict(Counter)
        for device in fabric.single_devices:
            if device.host is not None:
                local = device.name.removeprefix(f"{device.host}/")
                found[device.host][local, device.kind, device.model, device.numa] += 1
        for link in fabric.single_links:
            _count_link(fabric, link, found)
        fabric.memo[key] = {host: frozenset(items.items()) for host, items in found.items()}
    content: dict[str, Hashable] = fabric.memo[key]
    return content


def _count_link(fabric: Fabric, link: Link, found: Mapping[str, Counter[Hashable]]) -> None:
    accelerators = link.link_class in ("nvlink", "xgmi")
    if not accelerators and link.link_class in ("ib", "ethernet", "network"):
        return  # a cable: looked at from its NIC
    a, b = fabric.host_of(link.src), fabric.host_of(link.dst)
    figures = (link.link_class, link.GBps, link.wire_GBps, link.multiplicity, link.health)
    for host in {a, b} - {None}:
        ends = tuple(
            end.removeprefix(f"{host}/") if end.startswith(f"{host}/") else ""
            for end in (link.src, link.dst)
        )
        found[host or ""][(ends, figures)] += 1


def _cables(fabric: Fabric, nic: str) -> Hashable:
    """What each of a NIC's cables carries, and whether the way back is up."""
    if not fabric.single_links_from(nic):
        return ()
    back = {k.src: k.health > 0 for k in fabric.single_links_to(nic)}
    return tuple((_FIGURES(k), back.get(k.dst, False)) for k in links_out(fabric, nic))


_FIGURES = attrgetter("GBps", "wire_GBps", "multiplicity", "health", "link_class")
