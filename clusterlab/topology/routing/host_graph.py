"""A host (or the hosts of one NVLink domain) as NCCL sees it, and NCCL's search for paths in it.

Follows ncclTopoSetPaths and ncclTopoGetLocal* of NCCL 2.30.7, src/graph/paths.cc and topo.cc. Like NCCL,
all NVSwitches a GPU reaches are one node and parallel links one link; NCCL has no host bridges, so ours
count as the CPU (NUMA domain) they belong to; its GPU and DEV nodes are one here, its NIC and NET too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.routing.nics import leading_out


class PathType(IntEnum):
    """NCCL's path types, nearest first (src/include/graph.h)."""

    LOC = 0  # itself
    NVL = 1  # NVLink
    NVB = 2  # NVLink through another GPU
    C2C = 3  # the chip-to-chip link of a superchip
    PIX = 4  # at most one PCIe switch
    PXB = 5  # several PCIe switches, no host bridge
    P2C = 6  # C2C to the CPU, PCIe from there to the NIC
    PXN = 7  # NVLink to another GPU, from there to its NIC
    PHB = 8  # through a host bridge (the CPU)
    SYS = 9  # through the link between CPUs
    NET = 10  # through the network
    DIS = 11  # no connection


_LINKS = {
    "nvlink": PathType.NVL,
    "xgmi": PathType.NVL,
    "c2c": PathType.C2C,
    "pcie": PathType.PIX,
    "upi": PathType.SYS,
}
_KINDS = frozenset({"gpu", "nvswitch", "pcie_switch", "host_bridge", "cpu", "nic"})
_MAX_CHANNELS = 64
"""MAXCHANNELS of NCCL's src/include/device.h: how many channels are asked for their NIC."""


@dataclass(frozen=True, slots=True)
class Edge:
    """All parallel links of one kind to one neighbour. ``bw`` in GB/s; 0: unknown."""

    to: str
    type: PathType
    bw: float


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path to a base: nodes from here to there, ``bw`` the least on it (0: unknown, inf: no link)."""

    type: PathType
    bw: float
    nodes: tuple[str, ...]

    @property
    def count(self) -> int:
        """Links on it."""
        return len(self.nodes) - 1


DISCONNECTED = HostPath(PathType.DIS, 0.0, ())


@dataclass(eq=False)
class HostGraph:
    """Nodes with their kind, edges and host. ``node_of`` leads from a device to the node it is part of.

    ``leading_out`` are the NICs that lead into the network, ``net_bw`` what their live cables carry,
    ``gpu_number`` NVML's index of each GPU on its host.
    """

    kind: dict[str, str]
    host: dict[str, str | None]
    node_of: dict[str, str]
    edges: dict[str, list[Edge]]
    net_bw: dict[str, float] = field(default_factory=dict)
    leading_out: frozenset[str] = frozenset()
    gpu_number: dict[str, int] = field(default_factory=dict)
    memo: dict[object, Any] = field(default_factory=dict)
    _to: dict[str, dict[str, HostPath]] = field(default_factory=dict)

    def of_kind(self, kind: str, host: str | None = None) -> list[str]:
        """Nodes of a kind, on one host or all, in the fabric's order."""
        found: list[str] = self._of_kind.get((kind, host), [])
        return list(found)

    @cached_property
    def _of_kind(self) -> dict[tuple[str, str | None], list[str]]:
        """By kind and host, and by kind on any host (None)."""
        found: dict[tuple[str, str | None], list[str]] = {}
        for name, kind in self.kind.items():
            for host in {self.host[name], None}:
                found.setdefault((kind, host), []).append(name)
        return found

    def network_nics(self, host: str | None) -> list[str]:
        """The NICs of a host that lead into the network, in the fabric's order."""
        return [n for n in self.of_kind("nic", host) if n in self.leading_out]

    def path(self, src: str, base: str) -> HostPath:
        """NCCL's path from ``src`` to ``base``, before what it does about P2P, PXN and GPU Direct."""
        if base not in self._to:
            self._to[base] = _paths_to(self, base)
        return self._to[base].get(src, DISCONNECTED)


def host_graph(fabric: Fabric, host: str) -> HostGraph:
    """The graph of ``host`` and of all hosts whose GPUs share its NVSwitches. Kept in the fabric's memo."""
    known: dict[str, HostGraph] = fabric.memo.setdefault(("routing", "hosts"), {})
    if host not in known:
        graph = graph_of(fabric, domain(fabric, host))
        hosts = {host, *(h for h in graph.host.values() if h is not None)}
        known.update(dict.fromkeys(hosts, graph))
    return known[host]


def domain(fabric: Fabric, host: str) -> list[str]:
    """Devices of the hosts that NVLink joins to ``host``, and the NVSwitches between them."""
    found = dict.fromkeys(d.name for d in fabric.on_host(host))
    hosts, queue = {host}, list(found)
    while queue:
        for link in fabric.links_from(queue.pop()):
            if link.dst in found or _LINKS.get(link.link_class) is not PathType.NVL:
                continue
            other = fabric.device(link.dst).host
            names = [link.dst]
            if other is not None and other not in hosts:
                hosts.add(other)
                names = [d.name for d in fabric.on_host(other)]
            new = [n for n in names if n not in found]
            found.update(dict.fromkeys(new))
            queue += new
    return list(found)


def graph_of(
    fabric: Fabric,
    names: Sequence[str],
    *,
    without: Collection[str] = (),
    rate: Callable[[Link], float | None] = lambda link: link.capacity_GBps,
    net_rate: Callable[[Link], float | None] = lambda link: link.capacity_GBps,
) -> HostGraph:
    """The graph of the devices in ``names`` but those in ``without``, which keep their GPU numbers.

    ``rate`` gives what a link inside a host carries in GB/s, ``net_rate`` a NIC's cable; None: unknown.
    """
    devices = {n: d for n in names if (d := fabric.device(n)).kind in _KINDS}
    numbers = _gpu_numbers(devices.values())
    devices = {n: d for n, d in devices.items() if n not in without}
    inside = [
        link
        for n in devices
        for link in fabric.links_from(n)
        if link.dst in devices
        and link.src != link.dst
        and link.health > 0
        and link.link_class in _LINKS
    ]
    node_of = _merged({n: d.kind for n, d in devices.items()}, inside)
    kind: dict[str, str] = {}
    host: dict[str, str | None] = {}
    for name, node in node_of.items():
        bridge = devices[name].kind == "host_bridge"
        kind.setdefault(node, "cpu" if bridge else devices[name].kind)
        host.setdefault(node, devices[name].host)
    graph = HostGraph(kind, host, node_of, _edges(inside, node_of, kind, rate))
    graph.gpu_number = {n: i for n, i in numbers.items() if n in kind}
    for nic in graph.of_kind("nic"):
        graph.net_bw[nic] = _net_bw(fabric, nic, net_rate)
    hosts = {h for h in host.values() if h is not None}
    graph.leading_out = frozenset(nic for h in hosts for nic in leading_out(fabric, h))
    return graph


def _gpu_numbers(devices: Iterable[Device]) -> dict[str, int]:
    """NVML's index of each GPU on its host."""
    seen: dict[str | None, int] = {}
    numbers = {}
    for device in devices:
        if device.kind == "gpu":
            numbers[device.name] = seen[device.host] = seen.get(device.host, -1) + 1
    return numbers


def _merged(kind: dict[str, str], links: list[Link]) -> dict[str, str]:
    """Device → node: NVSwitches that reach each other over NVLink are one, host bridges are their CPU."""
    node = {name: name for name in kind}
    joined: dict[str, list[str]] = {}
    for link in links:
        if _LINKS[link.link_class] is PathType.NVL and "nvswitch" in (
            kind[link.src],
            kind[link.dst],
        ):
            joined.setdefault(link.src, []).append(link.dst)
        bridged = (kind[link.src], kind[link.dst]) == ("host_bridge", "cpu")
        if bridged:
            node[link.src] = link.dst
    for first in (n for n, k in kind.items() if k == "nvswitch"):
        if node[first] != first:
            continue
        queue, seen = [first], {first}
        while queue:
            for other in joined.get(queue.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    queue.append(other)
        node.update({n: first for n in seen if kind[n] == "nvswitch"})
    return node


def _edges(
    links: list[Link],
    node_of: dict[str, str],
    kind: dict[str, str],
    rate_of: Callable[[Link], float | None],
) -> dict[str, list[Edge]]:
    """Parallel links added up, the widest first (ncclTopoConnectNodes). One unknown makes all unknown."""
    total: dict[tuple[str, str, PathType], float] = {}
    for link in links:
        src, dst = node_of[link.src], node_of[link.dst]
        if src != dst:
            # NCCL's link between CPUs is SYS whatever it is made of (ncclTopoConnectCpus).
            between_cpus = kind[src] == kind[dst] == "cpu"
            key = (src, dst, PathType.SYS if between_cpus else _LINKS[link.link_class])
            rate = rate_of(link) or 0.0
            before = total.get(key)
            total[key] = 0.0 if rate == 0 or before == 0 else (before or 0.0) + rate
    edges: dict[str, list[Edge]] = {}
    for (src, dst, link_type), bw in total.items():
        edges.setdefault(src, []).append(Edge(dst, link_type, bw))
    return {src: sorted(found, key=lambda e: -e.bw) for src, found in edges.items()}


def _net_bw(fabric: Fabric, nic: str, rate: Callable[[Link], float | None]) -> float:
    """What a NIC's live cables carry together; inf where none is known (PCIe decides alone)."""
    rates = [
        rate(link)
        for link in fabric.links_from(nic)
        if link.link_class in ("ib", "ethernet", "network") and link.health > 0
    ]
    known = [r for r in rates if r is not None]
    return sum(known) if known and len(known) == len(rates) else float("inf")


def _paths_to(graph: HostGraph, base: str) -> dict[str, HostPath]:
    """ncclTopoSetPaths: breadth first from ``base``, a better path replacing a worse one."""
    best = {base: HostPath(PathType.LOC, graph.net_bw.get(base, float("inf")), (base,))}
    layer = [base]
    while layer:
        later: dict[str, None] = {}
        for node in layer:
            path = best[node]
            for edge in graph.edges.get(node, ()):
                new = _extended(graph, base, path, node, edge)
                if new is not None and _better(new, best.get(edge.to, DISCONNECTED)):
                    best[edge.to] = new
                    later[edge.to] = None
        layer = list(later)
    return best


def _extended(
    graph: HostGraph, base: str, path: HostPath, node: str, edge: Edge
) -> HostPath | None:
    """The path from the far end of ``edge`` over ``node`` to the base; None where NCCL allows none."""
    kind, far = graph.kind[node], graph.kind[edge.to]
    if node != base and kind == "nic":
        return None
    # GPUs forward for others only over NVLink, and only as one step between two GPUs (NVB).
    if node != base and kind == "gpu":
        nvb = edge.type is PathType.NVL and far == "gpu" and path.count <= 1
        if not nvb:
            return None
    step = edge.type
    if kind == far == "pcie_switch":
        step = PathType.PXB
    if edge.type is PathType.PIX and "cpu" in (kind, far):
        step = PathType.PHB
    if kind == "gpu" and path.type is PathType.NVL and step is PathType.NVL and path.count == 1:
        step = PathType.NVB
    bw = min(path.bw, edge.bw, graph.net_bw.get(edge.to, float("inf")))
    return HostPath(max(path.type, step), bw, (edge.to, *path.nodes))


def _better(new: HostPath, old: HostPath) -> bool:
    if new.type != old.type:
        return new.type < old.type
    return new.bw > old.bw or (new.bw == old.bw and new.count < old.count)


def nearest(paths: dict[str, HostPath]) -> list[str]:
    """ncclTopoGetLocal: those of the highest bandwidth, among them those of the nearest type."""
    reached = {n: p for n, p in paths.items() if p.type < PathType.DIS}
    if not reached:
        return []
    most = max(p.bw for p in reached.values())
    least = min(p.type for p in reached.values() if p.bw == most)
    return [n for n, p in reached.items() if p.bw == most and p.type == least]


def local_nic(graph: HostGraph, gpu: str, channel: int, to_nics: dict[str, HostPath]) -> str | None:
    """ncclTopoGetLocalNet: the NIC a GPU uses on a channel. ``to_nics`` are its paths to its host's NICs."""
    nics = nearest(to_nics)
    if not nics:
        return None
    host = graph.host[gpu]
    gpus = nearest({g: graph.path(nics[0], g) for g in graph.of_kind("gpu", host)})
    if not gpus:
        return nics[0]
    each = -(-len(nics) // len(gpus))
    first = graph.gpu_number[gpu] % len(gpus)
    if len(nics) & (len(nics) - 1) == 0:
        first = _mirrored(first, len(nics))
    return nics[(first + channel % each) % len(nics)]


def _mirrored(number: int, power: int) -> int:
    """mirrorBits: the bits of ``number`` below ``power`` in reverse order."""
    bits = power.bit_length() - 1
    return sum(1 << (bits - 1 - b) for b in range(bits) if number >> b & 1)


def local_gpu(graph: HostGraph, nic: str, to_nics: dict[str, dict[str, HostPath]]) -> str | None:
    """ncclTopoGetLocalGpu: the GPU that uses a NIC on the lowest channel."""
    gpus = nearest({g: graph.path(nic, g) for g in to_nics})
    most = max((len(to) for to in to_nics.values()), default=0)
    for channel in range(min(most, _MAX_CHANNELS)):  # a GPU has no more NICs to go round
        for gpu in gpus:
            if local_nic(graph, gpu, channel, to_nics[gpu]) == nic:
                return gpu
    return None
