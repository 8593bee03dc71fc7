"""A path inside hosts as hops: the links each step uses, the NVSwitches of each level, what they carry.

NCCL takes all NVSwitches that reach each other for one node and knows only the GPUs' own links to it.
Here every level of them stands by itself, and the narrowest decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link
from clusterlab.topology.routing.hops import Hop
from clusterlab.topology.routing.host_graph import HostGraph, host_graph
from clusterlab.topology.routing.path_types import TypedPath

_PER_GBps = 10**6
"""Whole units of a flow, so that it is exact."""


def host_hops(fabric: Fabric, path: TypedPath) -> tuple[Hop, ...]:
    """The hops of ``path``. An end may stand for several devices (NVSwitches, host bridges)."""
    return tuple(
        hop for a, *between, b in _steps(fabric, path) for hop in _hops(fabric, a, between, b)
    )


def host_GBps(fabric: Fabric, path: TypedPath) -> float | None:
    """What ``path`` carries per direction: NCCL's figure, or less where the NVSwitches carry less."""
    least = path.GBps
    for a, *between, b in _steps(fabric, path):
        if least is None or not between:
            continue
        carried = _carried(_layers(fabric, a, between[0], b))
        least = None if carried is None else min(least, carried)
    return least


def _steps(fabric: Fabric, path: TypedPath) -> Iterable[tuple[str, ...]]:
    """(from, to) for each step, (from, NVSwitches' node, to) for those over NVSwitches."""
    names = list(path.devices)
    while len(names) > 1:
        over = len(names) > 2 and fabric.device(names[1]).kind == "nvswitch"
        yield tuple(names[: 3 if over else 2])
        del names[: 2 if over else 1]


def _hops(fabric: Fabric, a: str, between: list[str], b: str) -> list[Hop]:
    if not between:
        return [_hop(fabric, (a, b), _links_between(fabric, a, b))]
    layers = _layers(fabric, a, between[0], b)
    return [_hop(fabric, (a, b), links) for links in layers]


def _hop(fabric: Fabric, ends: tuple[str, str], links: list[Link]) -> Hop:
    known = [rate for link in links if (rate := link.capacity_GBps) is not None]
    return Hop(
        _together(fabric, ends[0], [link.src for link in links]),
        _together(fabric, ends[1], [link.dst for link in links]),
        links[0].link_class if links else "",
        sum(known) if known and len(known) == len(links) else None,
        links=sum(link.multiplicity for link in links),
    )


def _together(fabric: Fabric, node: str, ends: list[str]) -> str:
    """The NVSwitches at one end of links, as a hostlist; any other end by the name of its node."""
    switches = {name for name in ends if fabric.device(name).kind == "nvswitch"}
    if not switches:
        return node
    return compress_hostlist(sorted(switches, key=lambda name: (len(name), name)))


def _members(graph: HostGraph, node: str) -> list[str]:
    return [name for name, of in graph.node_of.items() if of == node]


def _graph(fabric: Fabric, *names: str) -> HostGraph | None:
    host = next((h for name in names if (h := fabric.device(name).host) is not None), None)
    return None if host is None else host_graph(fabric, host)


def _links_between(fabric: Fabric, a: str, b: str) -> list[Link]:
    """Live links from a to b, or to whatever stands beside b in one node of NCCL's graph."""
    graph = _graph(fabric, a, b)
    if graph is None:
        return []
    return [
        link
        for name in _members(graph, a)
        for link in fabric.links_from(name)
        if graph.node_of.get(link.dst) == b and link.health > 0
    ]


def _layers(fabric: Fabric, a: str, switches: str, b: str) -> list[list[Link]]:
    """The live links of the shortest ways from a to b over the NVSwitches of a node, step by step."""
    graph = _graph(fabric, a, b)
    if graph is None:
        return []
    sources, inner = set(_members(graph, a)), set(_members(graph, switches))
    targets = set(_members(graph, b))
    links = [
        link
        for name in sources | inner
        for link in fabric.links_from(name)
        if link.health > 0 and (link.dst in inner or (name in inner and link.dst in targets))
    ]
    links = sorted(links, key=lambda link: (link.src, link.dst))
    ahead, back = defaultdict(list), defaultdict(list)
    for link in links:
        ahead[link.src].append(link.dst)
        back[link.dst].append(link.src)
    after, before = _distances(ahead, sources), _distances(back, targets)
    length = min((after[name] for name in targets if name in after), default=0)
    layers: list[list[Link]] = [[] for _ in range(length)]
    for link in links:
        place = after.get(link.src)
        if place is not None and place + 1 + before.get(link.dst, length) == length:
            layers[place].append(link)
    return layers


def _distances(near: Mapping[str, list[str]], start: set[str]) -> dict[str, int]:
    found, layer = dict.fromkeys(start, 0), start
    while layer:
        layer = {other for name in layer for other in near.get(name, ())} - found.keys()
        found |= dict.fromkeys(layer, max(found.values()) + 1)
    return found


def _carried(layers: list[list[Link]]) -> float | None:
    """The most that flows over the links of all layers at once; None where a rate is unknown."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    for link in (link for links in layers for link in links):
        if link.capacity_GBps is None:
            return None
        units = round(link.capacity_GBps * _PER_GBps)
        old = graph.get_edge_data(link.src, link.dst, {"capacity": 0})["capacity"]
        graph.add_edge(link.src, link.dst, capacity=old + units)
    if not layers:
        return None
    graph.add_edges_from(("source", link.src) for link in layers[0])
    graph.add_edges_from((link.dst, "sink") for link in layers[-1])
    most: float = nx.maximum_flow_value(graph, "source", "sink")
    return most / _PER_GBps
