"""The way from one device to another, device by device, for people: types, links, GB/s, choices."""

from __future__ import annotations

from collections import Counter

import numpy as np

from clusterlab.core.errors import UsageError
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.matrix import topo_word
from clusterlab.topology.parts import SWITCH_KINDS, DeviceKind
from clusterlab.topology.routing.hops import Hop, Trace
from clusterlab.topology.routing.host_graph import PathType
from clusterlab.topology.routing.host_hops import host_GBps, host_hops
from clusterlab.topology.routing.network import Network, has_network, network_of
from clusterlab.topology.routing.nics import leading_out, links_out, why_not
from clusterlab.topology.routing.no_way import no_way
from clusterlab.topology.routing.path_types import TypedPath, host_path, nic_of
from clusterlab.topology.routing.policy import Policy
from clusterlab.topology.routing.updown import Routes, route_pairs

_TO_NAME: tuple[DeviceKind, ...] = ("gpu", "nic")
"""What of a host to name in its place, first choice first."""


def trace(fabric: Fabric, src: str, dst: str, policy: Policy, *, label: int = 0) -> Trace:
    """The way data takes from ``src`` to ``dst``, GPUs or NICs (or others of one host).

    Inside a host, or an NVLink domain, NCCL's path; otherwise from the GPU to the NIC NCCL gives it
    first, through the network as ``policy`` chooses for flow ``label``, and from the peer's NIC on.
    Where those two do not meet, the next NICs, nearest first. Raises UsageError for unknown devices,
    for hosts that have GPUs or NICs to name, and for switches, which start no traffic.
    """
    for name in (src, dst):
        _check_end(fabric, name)
    inside = _inside(fabric, src, dst)
    if inside.type is not PathType.DIS:
        hops, GBps = host_hops(fabric, inside), host_GBps(fabric, inside)
        return Trace(src, dst, inside.type.name, GBps, hops, topo_m=topo_word(fabric, src, dst))
    return _across(fabric, src, dst, policy, label)


def _check_end(fabric: Fabric, name: str) -> None:
    if name in fabric.hosts and fabric.host_of(name) is None:
        ends = [d.name for kind in _TO_NAME for d in fabric.on_host(name, kind)]
        raise UsageError(
            f"{name} is a host",
            where=f"fabric {fabric.name}",
            expected="a GPU or NIC of it",
            fix=f"give {ends[0]}" if ends else None,
        )
    device = fabric.device(name)
    reduces = device.role == "aggregation"
    if device.kind in SWITCH_KINDS or reduces:
        what = "the aggregation node of a switch" if reduces else f"a {device.kind}"
        raise UsageError(
            f"{name} is {what}",
            where=f"fabric {fabric.name}",
            expected="a GPU, a NIC or another device that sends and receives",
        )


def _inside(fabric: Fabric, src: str, dst: str) -> TypedPath:
    if any(fabric.device(name).host is None for name in (src, dst)) and src != dst:
        return TypedPath(PathType.DIS, None, ())
    if src == dst:
        return TypedPath(PathType.LOC, None, (src,))
    return host_path(fabric, src, dst)


def _across(fabric: Fabric, src: str, dst: str, policy: Policy, label: int) -> Trace:
    leave, enter = _network_ends(fabric, src), _network_ends(fabric, dst)
    for a, b in ((a, b) for b in enter for a in leave):
        back_to_back = _cables_hops(fabric, a, b)
        if back_to_back:
            return _joined(fabric, (src, a, b, dst), back_to_back, policy)
    network = network_of(fabric) if has_network(fabric) else None
    met = network and _first_that_meet(network, leave, enter, policy, label)
    if network is not None and met:
        between, remark = _network_hops(network, *met, policy, label)
        return _joined(fabric, (src, *met, dst), between, policy, remark)
    reason = no_way(fabric, network, (src, leave), (dst, enter))
    return Trace(src, dst, PathType.DIS.name, None, (), reason=reason)


def _cables_hops(fabric: Fabric, a: str, b: str) -> tuple[Hop, ...]:
    """The one hop over live cables from NIC to NIC; none where there is no such cable."""
    links = [k for k in links_out(fabric, a) if k.dst == b and k.health > 0]
    if not links:
        return ()
    known = [rate for link in links if (rate := link.capacity_GBps) is not None]
    each = sum(known) if len(known) == len(links) else None
    cables = sum(link.multiplicity for link in links)
    return (Hop(a, b, links[0].link_class, each, links=cables),)


def _first_that_meet(
    network: Network, leave: list[str], enter: list[str], policy: Policy, label: int
) -> tuple[str, str] | None:
    """The first NICs that an up-down path joins, else the first that any joins.

    The peer's own NIC comes before its others, as PXN does.
    """
    pairs = [(a, b) for b in enter for a in leave if a in network.index and b in network.index]
    if not pairs:
        return None
    src, dst = (np.array([network.node(pair[i]) for pair in pairs]) for i in (0, 1))
    labels = np.full(len(pairs), label)
    routes = route_pairs(network, src, dst, policy, labels=labels)
    met = np.flatnonzero(routes.reached & (src != dst))
    first = met[np.argsort(routes.minimal[met], kind="stable")]
    return pairs[int(first[0])] if len(first) else None


def _joined(
    fabric: Fabric,
    way: tuple[str, str, str, str],
    between: tuple[Hop, ...],
    policy: Policy,
    remark: str | None = None,
) -> Trace:
    src, end, enter, dst = way
    leave, arrive = _inside(fabric, src, end), _inside(fabric, enter, dst)
    ends = [host_hops(fabric, path) for path in (leave, arrive)]
    hops = (*ends[0], *between, *ends[1])
    rates = [hop.GBps for hop in hops]
    rates += [host_GBps(fabric, path) for path in (leave, arrive) if path.GBps is not None]
    known = [rate for rate in rates if rate is not None]
    return Trace(
        src,
        dst,
        PathType.NET.name,
        min(known) if len(known) == len(rates) else None,
        hops,
        parts=(leave.type.name, PathType.NET.name, arrive.type.name),
        policy=policy.name,
        not_up_down=remark,
    )


def _network_ends(fabric: Fabric, device: str) -> list[str]:
    """Where a device enters the network, first choice first: itself if it has a cable out, else NCCL's
    NIC for it, then the other NICs it can reach, the nearest type first (PXN on rails that do not meet).

    NICs that are down or not cabled are no choice.
    """
    if fabric.device(device).kind == "nic" or links_out(fabric, device):
        return [device] if why_not(fabric, device) is None else []
    host = fabric.device(device).host
    if host is None:
        return []
    ways = {n: _inside(fabric, device, n).type for n in leading_out(fabric, host)}
    reached = sorted((n for n in ways if ways[n] < PathType.NET), key=lambda n: ways[n])
    own = nic_of(fabric, device)
    return reached if own is None else [own, *(n for n in reached if n != own)]


def _network_hops(
    network: Network, src: str, dst: str, policy: Policy, label: int
) -> tuple[tuple[Hop, ...], str | None]:
    """The hops, and in what way they are not up-down."""
    start, end = (np.array([network.node(name)]) for name in (src, dst))
    routes = route_pairs(network, start, end, policy, labels=np.array([label]))
    here, hops = network.node(src), []
    for hop in range(int(routes.length[0])):
        cable = int(routes.cables[0, hop])
        upward = not routes.back[0, hop]
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
    return tuple(hops), _not_up_down(network, routes) if routes.minimal[0] else None


_PLURALS = {1: "leaves", 2: "spines", 3: "cores"}


def _not_up_down(network: Network, routes: Routes) -> str:
    """``minimal routing: 1 cable between leaves``; where a path goes up again: ``up again at leaf3``."""
    cables = routes.cables[0][: int(routes.length[0])]
    within = Counter(network.tier[network.low[cables[network.level[cables]]]].tolist())
    what = [
        f"{n} cable{'s' if n > 1 else ''} between {_PLURALS[tier]}"
        for tier, n in sorted(within.items())
    ]
    fell, level, back = False, network.level[cables].tolist(), routes.back[0].tolist()
    for cable, flat, down in zip(cables.tolist(), level, back[: len(cables)], strict=True):
        if fell and not flat and not down:
            what.append(f"up again at {network.nodes[int(network.low[cable])]}")
        fell = down if not flat else fell
    return f"minimal routing: {', '.join(what)}"
