"""The way from one device to another, device by device, for people: types, links, GB/s, choices."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS, Link
from clusterlab.topology.routing.host_graph import PathType, host_graph
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.path_types import TypedPath, host_path, nic_of
from clusterlab.topology.routing.policy import Policy
from clusterlab.topology.routing.updown import route_pairs


@dataclass(frozen=True, slots=True)
class Hop:
    """One step. ``GBps`` per direction of all ``links`` it uses at once (one cable of a network's);
    None: unknown. ``cable`` names a network's cable (``leaf3/spine2#1``), chosen among ``ways``.
    """

    src: str
    dst: str
    link_class: str
    GBps: float | None
    links: int = 1
    cable: str | None = None
    ways: int = 1


@dataclass(frozen=True, slots=True)
class Trace:
    """The way from ``src`` to ``dst``. ``type`` is NCCL's path type, ``GBps`` the least of its hops.

    ``parts`` are the types of the way to the NIC and from the other one, where it leads through the
    network. ``policy`` chose among equal cables there. No hops: no way (DIS), or src is dst (LOC).
    """

    src: str
    dst: str
    type: str
    GBps: float | None
    hops: tuple[Hop, ...]
    parts: tuple[str, ...] = ()
    policy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data, in the order people read it."""
        return asdict(self)

    def text(self) -> str:
        """One line of summary, then one per hop."""
        rate = "" if self.GBps is None else f", {self.GBps:g} GB/s"
        how = f" ({' + '.join(self.parts)}, {self.policy} routing)" if self.policy else ""
        lines = [f"{self.src} -> {self.dst}: {self.type}{how}{rate}"]
        if self.type == PathType.DIS.name:
            lines.append("  no way")
        width = max((len(hop.src) + len(hop.dst) for hop in self.hops), default=0) + 4
        for hop in self.hops:
            name = f"{hop.src} -> {hop.dst}"
            each = "unknown" if hop.GBps is None else f"{hop.GBps:g} GB/s"
            more = f", {hop.links} links" if hop.links > 1 else ""
            if hop.cable is not None:
                more = f", cable {hop.cable}" + (f" of {hop.ways} equal" if hop.ways > 1 else "")
            lines.append(f"  {name:<{width}}  {hop.link_class:<8} {each}{more}")
        return "\n".join(lines)


def trace(fabric: Fabric, src: str, dst: str, policy: Policy, *, label: int = 0) -> Trace:
    """The way data takes from ``src`` to ``dst``, GPUs or NICs (or others of one host).

    Inside a host, or an NVLink domain, NCCL's path; otherwise from the GPU to the NIC NCCL gives it
    first, through the network as ``policy`` chooses for flow ``label``, and from the peer's NIC on.
    Raises UsageError for unknown devices and for switches, which start no traffic.
    """
    for name in (src, dst):
        if fabric.device(name).kind in SWITCH_KINDS:
            raise UsageError(
                f"{name} is a {fabric.device(name).kind}",
                where=f"fabric {fabric.name}",
                expected="a GPU, a NIC or another device that sends and receives",
            )
    inside = _inside(fabric, src, dst)
    if inside.type is not PathType.DIS:
        return Trace(src, dst, inside.type.name, inside.GBps, _host_hops(fabric, inside))
    return _across(fabric, src, dst, policy, label)


def _inside(fabric: Fabric, src: str, dst: str) -> TypedPath:
    if any(fabric.device(name).host is None for name in (src, dst)) and src != dst:
        return TypedPath(PathType.DIS, None, ())
    if src == dst:
        return TypedPath(PathType.LOC, None, (src,))
    return host_path(fabric, src, dst)


def _across(fabric: Fabric, src: str, dst: str, policy: Policy, label: int) -> Trace:
    enter = next(iter(_network_ends(fabric, dst)), None)
    for end in _network_ends(fabric, src):
        if enter is None:
            break
        between = _network_hops(network_of(fabric), end, enter, policy, label)
        if between:
            return _joined(fabric, (src, end, enter, dst), between, policy)
    return Trace(src, dst, PathType.DIS.name, None, ())


def _joined(
    fabric: Fabric, way: tuple[str, str, str, str], between: tuple[Hop, ...], policy: Policy
) -> Trace:
    src, end, enter, dst = way
    leave, arrive = _inside(fabric, src, end), _inside(fabric, enter, dst)
    hops = (*_host_hops(fabric, leave), *between, *_host_hops(fabric, arrive))
    rates = [hop.GBps for hop in hops]
    known = [rate for rate in rates if rate is not None]
    return Trace(
        src,
        dst,
        PathType.NET.name,
        min(known) if len(known) == len(rates) else None,
        hops,
        parts=(leave.type.name, PathType.NET.name, arrive.type.name),
        policy=policy.name,
    )


def _network_ends(fabric: Fabric, device: str) -> list[str]:
    """Where a device enters the network, first choice first: itself if it has a cable to a switch, else
    NCCL's NIC for it, then the other NICs it can reach, the nearest type first (PXN on rails that do
    not meet).
    """
    cabled = any(fabric.device(link.dst).kind in SWITCH_KINDS for link in fabric.links_from(device))
    if cabled or fabric.device(device).kind == "nic":
        return [device]
    host, own = fabric.device(device).host, nic_of(fabric, device)
    if host is None or own is None:
        return []
    others = {n.name: _inside(fabric, device, n.name) for n in fabric.on_host(host, "nic")}
    reached = [n for n, path in others.items() if path.type < PathType.NET and n != own]
    return [own, *sorted(reached, key=lambda n: others[n].type)]


def _network_hops(
    network: Network, src: str, dst: str, policy: Policy, label: int
) -> tuple[Hop, ...]:
    if src not in network.index or dst not in network.index:
        return ()
    start, end = (np.array([network.node(name)]) for name in (src, dst))
    routes = route_pairs(network, start, end, policy, labels=np.array([label]))
    here, hops = network.node(src), []
    for hop in range(int(routes.length[0])):
        cable = int(routes.cables[0, hop])
        upward = hop < routes.ups[0]
        there = int((network.high if upward else network.low)[cable])
        link = network.links[(network.up_link if upward else network.down_link)[cable]]
        rate = network.GBps[cable] * network.health[cable]
        hops.append(
            Hop(
                network.nodes[here],
                network.nodes[there],
                link.link_class,
                None if np.isnan(rate) else float(rate),
                cable=network.cable_name(cable),
                ways=int(routes.ways[0, hop]),
            )
        )
        here = there
    return tuple(hops)


def _host_hops(fabric: Fabric, path: TypedPath) -> tuple[Hop, ...]:
    """The hops of a path inside hosts. Its nodes may stand for several devices (NVSwitches, bridges)."""
    hops = []
    for a, b in pairwise(path.devices):
        links = _links_between(fabric, a, b)
        known = [rate for link in links if (rate := link.capacity_GBps) is not None]
        hops.append(
            Hop(
                a,
                b,
                links[0].link_class if links else "",
                sum(known) if known and len(known) == len(links) else None,
                links=sum(link.multiplicity for link in links),
            )
        )
    return tuple(hops)


def _links_between(fabric: Fabric, a: str, b: str) -> list[Link]:
    """Live links from a to b, or to whatever stands beside b in one node of NCCL's graph."""
    host = fabric.device(a).host or fabric.device(b).host
    if host is None:
        return []
    node_of = host_graph(fabric, host).node_of
    starts = [name for name, node in node_of.items() if node == a]
    return [
        link
        for name in starts
        for link in fabric.links_from(name)
        if node_of.get(link.dst) == b and link.health > 0
    ]
