"""One node as NCCL's search sees it: the ranks' GPUs, the NICs, and links with the bandwidth left on them.

Bandwidths are whole MB/s, so that what is taken and given back adds up (NCCL rounds to 3 decimals of GB/s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from clusterlab.cost.nccl.graphs.host_memory import by_host_memory
from clusterlab.topology.routing.host_graph import (
    HostGraph,
    HostPath,
    PathType,
    local_gpu,
    local_nic,
)
from clusterlab.topology.routing.path_types import Levels, path_between

MAX_CHANNELS = 64
"""MAXCHANNELS of src/include/device.h."""
UNLIMITED_MBPS = 5_000_000
"""LOC_BW of src/graph/topo.h."""


@dataclass(frozen=True, slots=True)
class Way:
    """A path: its type, least MB/s, the numbers of its links, which of them carry 6/5 (``dear``: PCIe
    through an Intel CPU, INTEL_P2P_OVERHEAD), and a link that carries 1/8 the other way (``back``, into
    GPUs before sm_80), -1 for none.
    """

    type: PathType
    MBps: int
    links: tuple[int, ...]
    dear: tuple[bool, ...] = ()
    back: int = -1


NO_WAY = Way(PathType.DIS, 0, ())


@dataclass(eq=False)
class System:
    """``graph`` holds only the ranks' GPUs. ``inter``: other nodes take part; ``multicast``: the NVSwitches
    multicast and reduce. ``left`` is MB/s by link, ``net_left`` by NIC.
    """

    graph: HostGraph
    gpus: Sequence[str]
    nics: Sequence[str]
    inter: bool
    capability: int
    intel: bool = False
    amd: bool = False
    levels: Levels = field(default_factory=Levels)
    multicast: bool = False
    xgmi: bool = False
    left: list[int] = field(default_factory=list)
    _number: dict[tuple[str, str, PathType], int] = field(default_factory=dict)
    _ways: dict[tuple[str, str], Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for src, edges in self.graph.edges.items():
            for edge in edges:
                self._number[src, edge.to, edge.type] = len(self.left)
                self.left.append(round(edge.bw * 1000))
        self.net_left = [min(round(self.graph.net_bw[n] * 1000), UNLIMITED_MBPS) for n in self.nics]

    @cached_property
    def nvswitch(self) -> str | None:
        """The node of all NVSwitches, where GPUs are on one."""
        found = self.graph.of_kind("nvswitch")
        return found[0] if found else None

    @cached_property
    def switched(self) -> bool:
        """Whether every GPU is on the NVSwitches, both ways: then each reaches each over them."""
        hub = self.nvswitch
        return hub is not None and all(
            (gpu, hub, PathType.NVL) in self._number and (hub, gpu, PathType.NVL) in self._number
            for gpu in self.gpus
        )

    def way(self, src: str, dst: str) -> Way:
        """The path NCCL uses from one node to another."""
        known = self._ways.get((src, dst))
        if known is None:
            known = self._ways[src, dst] = self._way(src, dst)
        return known

    @cached_property
    def gpu_ways(self) -> list[_Ways]:
        """By number: ``gpu_ways[a][b]`` is the path from GPU ``a`` to GPU ``b``."""
        return [_Ways(self, gpu) for gpu in self.gpus]

    @cached_property
    def to_switch(self) -> Way:
        """All GPUs' ways to the NVSwitches and back as one."""
        each = [self.to_switch_of(gpu) for gpu in range(len(self.gpus))]
        return Way(max(w.type for w in each), 0, tuple(k for w in each for k in w.links))

    def to_switch_of(self, gpu: int) -> Way:
        """One GPU's way to the NVSwitches and back, as one."""
        hub, name = self.nvswitch or "", self.gpus[gpu]
        down, up = self.way(hub, name), self.way(name, hub)
        return Way(max(down.type, up.type), 0, (*down.links, *up.links))

    def _way(self, src: str, dst: str) -> Way:
        hub = self.nvswitch
        if self.switched and hub and self.levels.p2p >= PathType.NVL:
            nodes = (src, hub, dst) if src != hub != dst else (src, dst)
            if all(n == hub or self.graph.kind[n] == "gpu" for n in nodes):
                return self._over(HostPath(PathType.NVL, 0.0, nodes), (PathType.NVL,) * 2)
        kind, host = self.graph.kind, self.graph.host
        if "nic" in (kind[src], kind[dst]) and host[src] != host[dst]:
            return NO_WAY  # GPUs forward nothing from another host's NIC
        path = path_between(self.graph, src, dst, self.levels)
        if kind[src] == kind[dst] == "gpu" and path.type > self.levels.p2p:
            path = by_host_memory(self.graph, path)
        if path.type >= PathType.DIS:
            return NO_WAY
        steps = zip(path.nodes, path.nodes[1:], strict=False)
        return self._over(path, tuple(self._edge_type(a, b) for a, b in steps))

    def _over(self, path: HostPath, types: Sequence[PathType]) -> Way:
        steps = list(zip(path.nodes, path.nodes[1:], strict=False))
        links = tuple(self._number[a, b, t] for (a, b), t in zip(steps, types, strict=False))
        kind = self.graph.kind
        by_cpu = any(kind[b] == "cpu" for _, b in steps)
        costs = self.intel and path.type is PathType.PHB and kind[path.nodes[0]] == "gpu" and by_cpu
        dear = tuple(costs and t is PathType.PIX for t in types[: len(links)])
        back = -1
        if self.capability < 80 and kind[path.nodes[0]] != "gpu" and kind[path.nodes[-1]] == "gpu":
            a, b = steps[-1]
            back = self._number.get((b, a, types[len(links) - 1]), -1)
        rates = [self.left[link] for link in links]
        nets = [self.graph.net_bw[n] * 1000 for n in path.nodes if n in self.graph.net_bw]
        least = min((*rates, *(round(min(r, UNLIMITED_MBPS)) for r in nets)), default=0)
        return Way(path.type, least, links, dear if costs else (), back)

    def _edge_type(self, src: str, dst: str) -> PathType:
        """The nearest type among parallel links: what NCCL's path takes."""
        return min(edge.type for edge in self.graph.edges[src] if edge.to == dst)

    @cached_property
    def least_types(self) -> tuple[PathType, PathType, PathType, PathType]:
        """Nearest and farthest type between GPUs, then between GPUs and NICs."""
        if self.switched and len(self.gpus) > 1 and self.levels.p2p >= PathType.NVL:
            among = [PathType.NVL]
        else:
            among = [self.way(a, b).type for a in self.gpus for b in self.gpus if a != b]
        out = [self.way(g, n).type for g in self.gpus for n in self.nics] if self.inter else []
        return (
            min(among, default=PathType.LOC),
            max(among, default=PathType.SYS),
            min(out, default=PathType.PIX),
            max(out, default=PathType.SYS),
        )

    @cached_property
    def staged_hops(self) -> int:
        """Hops of the ring through the GPUs in their order that have no peer access."""
        n = len(self.gpus)
        return sum(self._staged(self.gpus[i], self.gpus[(i + 1) % n]) for i in range(n))

    @cached_property
    def staged_pairs(self) -> float:
        """Share of the pairs of GPUs without peer access."""
        n = len(self.gpus)
        if n < 2 or self.least_types[1] <= self.levels.p2p:
            return 0.0
        return sum(self._staged(a, b) for a in self.gpus for b in self.gpus) / (n * (n - 1))

    def _staged(self, src: str, dst: str) -> bool:
        if src == dst or self.least_types[1] <= self.levels.p2p:
            return False
        return self.way(src, dst).type > self.levels.p2p

    @cached_property
    def _types_between(self) -> frozenset[PathType]:
        if self.switched and self.levels.p2p >= PathType.NVL:
            return frozenset({PathType.NVL})
        return frozenset(self.way(a, b).type for a in self.gpus for b in self.gpus if a != b)

    @cached_property
    def _types_out(self) -> frozenset[PathType]:
        pairs = [(g, n) for g in self.gpus for n in self.nics]
        out = {self.way(g, n).type for g, n in pairs}
        return frozenset(out | {self.way(n, g).type for g, n in pairs})

    def farthest_between(self, limit: PathType) -> PathType:
        """The farthest type up to ``limit`` that some pair of GPUs has."""
        return max((t for t in self._types_between if t <= limit), default=PathType.LOC)

    def farthest_out(self, limit: PathType) -> PathType:
        """The farthest type up to ``limit`` between some GPU and NIC."""
        return max((t for t in self._types_out if t <= limit), default=PathType.LOC)

    @cached_property
    def fastest_MBps(self) -> int:
        """maxBw: the most that one path carries, to a NIC or (alone) to another GPU."""
        if self.inter:
            return max((self.way(g, n).MBps for g in self.gpus for n in self.nics), default=0)
        if len(self.gpus) == 1:
            return UNLIMITED_MBPS
        peers = self.gpus[:2] if self.switched else self.gpus
        if self.switched and (hub := self.nvswitch):
            ups = sorted((self.way(g, hub).MBps for g in self.gpus), reverse=True)
            return ups[1]
        return max(self.way(a, b).MBps for a in peers for b in peers if a != b)

    @cached_property
    def total_MBps(self) -> int:
        """totalBw: the most that one GPU's NVLinks, or its PCIe, carry."""
        if not self.inter and len(self.gpus) == 1:
            return UNLIMITED_MBPS
        most = 0
        for gpu in self.gpus:
            edges = self.graph.edges.get(gpu, ())
            nvlink = sum(round(e.bw * 1000) for e in edges if e.type is PathType.NVL)
            pcie = max((round(e.bw * 1000) for e in edges if e.type is PathType.PIX), default=0)
            # A chip on C2C alone, as where nothing is said of its PCIe.
            other = max((round(e.bw * 1000) for e in edges), default=0)
            most = max(most, nvlink, pcie or (0 if nvlink else other))
        return most

    @cached_property
    def split(self) -> bool:
        """Whether NVLink joins the GPUs into exactly two islands (ncclTopoSplitNvLink)."""
        if self.switched:
            return False
        island = list(range(len(self.gpus)))
        for a, here in enumerate(self.gpus):
            for b in range(a + 1, len(self.gpus)):
                if self.way(here, self.gpus[b]).type is PathType.NVL:
                    island[b] = island[a]
        return sum(island.count(i) > 1 for i in set(island)) == 2

    def nearest_gpus(self, nic: int) -> list[int]:
        """The GPUs of the fastest paths from a NIC, among them the nearest (ncclTopoGetLocal)."""
        key = ("nearest gpus", nic)
        if key not in self.graph.memo:
            ways = {g: self.way(self.nics[nic], gpu) for g, gpu in enumerate(self.gpus)}
            reached = {g: w for g, w in ways.items() if w.type < PathType.DIS}
            most = max((w.MBps for w in reached.values()), default=0)
            fast = {g: w.type for g, w in reached.items() if w.MBps == most}
            self.graph.memo[key] = [g for g, t in fast.items() if t == min(fast.values())]
        found: list[int] = self.graph.memo[key]
        return found

    def _entry_ways(self, farthest: PathType) -> dict[int, list[tuple[int, Way]]]:
        """NIC → the GPUs it may hand a channel to, with the way there."""
        key = ("entry ways", farthest)
        if key not in self.graph.memo:
            found: dict[int, list[tuple[int, Way]]] = {}
            for n, nic in enumerate(self.nics):
                for g, gpu in enumerate(self.gpus):
                    way = self.way(nic, gpu)
                    if way.type <= farthest:
                        found.setdefault(n, []).append((g, way))
            self.graph.memo[key] = found
        ways: dict[int, list[tuple[int, Way]]] = self.graph.memo[key]
        return ways

    def shortest(self, farthest: PathType) -> tuple[int, int]:
        """Links on the shortest allowed way from a NIC to a GPU, and back."""
        key = ("shortest", farthest)
        if key not in self.graph.memo:
            there = [w for ways in self._entry_ways(farthest).values() for _, w in ways]
            back = [self.way(g, n) for g in self.gpus for n in self.nics]
            self.graph.memo[key] = (
                min((len(w.links) for w in there), default=0),
                min((len(w.links) for w in back if w.type <= farthest), default=0),
            )
        links: tuple[int, int] = self.graph.memo[key]
        return links

    def entries(self, farthest: PathType, speed: int) -> int:
        """How many channels of this speed can come in: by the NICs, and by the last links into the GPUs."""
        whole = max(speed // 1000 * 1000, 1)
        ways = self._entry_ways(farthest)
        by_nic = 0
        last: dict[int, int] = {}
        for n, found in ways.items():
            first = {w.links[0] for _, w in found if w.links}
            room = sum(self.left[k] // speed for k in first)
            by_nic += min(self.net_left[n] // whole, room)
            last |= {w.links[-1]: self.left[w.links[-1]] // speed for _, w in found if w.links}
        return min(by_nic, sum(last.values()))

    @cached_property
    def hub_rates(self) -> list[int]:
        """MB/s from the NVSwitches into each GPU."""
        hub = self.nvswitch
        return [self.left[self._number[hub, g, PathType.NVL]] for g in self.gpus] if hub else []

    def returns_by_relay(self, farthest: PathType) -> bool:
        """Whether a ring that must end on the NIC it began at always comes back through the GPU it began at,
        over the NVSwitches (PXN): then each channel enters every GPU once.
        """
        key = ("returns by relay", farthest)
        if key not in self.graph.memo:
            self.graph.memo[key] = self._returns_by_relay(farthest)
        yes: bool = self.graph.memo[key]
        return yes

    def _returns_by_relay(self, farthest: PathType) -> bool:
        hub = self.nvswitch
        if not self.switched or hub is None:
            return False
        for n, entries in self._entry_ways(farthest).items():
            for g, _ in entries:
                into = self._number[hub, self.gpus[g], PathType.NVL]
                for last in range(len(self.gpus)):
                    way = self.way(self.gpus[last], self.nics[n])
                    if last != g and way.type <= farthest and into not in way.links:
                        return False
        return True

    @cached_property
    def nic_owner(self) -> list[int | None]:
        """The GPU that each NIC is local to (ncclTopoGetLocalGpu)."""
        found: list[int | None] = []
        for nic in self.nics:
            host = self.graph.host[nic]
            gpus = [g for g in self.gpus if self.graph.host[g] == host]
            owner = local_gpu(self.graph, nic, {g: self._to_nics(g) for g in gpus})
            found.append(None if owner is None else self.gpus.index(owner))
        return found

    def _to_nics(self, gpu: str) -> dict[str, HostPath]:
        key = ("settled to live NICs", gpu, self.levels)
        if key not in self.graph.memo:
            host = self.graph.host[gpu]
            self.graph.memo[key] = {
                n: path_between(self.graph, gpu, n, self.levels)
                for n in self.nics
                if self.graph.host[n] == host
            }
        paths: dict[str, HostPath] = self.graph.memo[key]
        return paths

    @cached_property
    def _preferred(self) -> list[list[int]]:
        """By GPU the NICs it takes on channel 0, 1, … until they repeat."""
        number = {n: i for i, n in enumerate(self.nics)}
        found = []
        for gpu in self.gpus:
            mine: list[int] = []
            for channel in range(MAX_CHANNELS):
                nic = local_nic(self.graph, gpu, channel, self._to_nics(gpu))
                if nic is None or (mine and number[nic] == mine[0]):
                    break
                mine.append(number[nic])
            found.append(mine)
        return found

    def nics_for(self, gpu: int | None, farthest: PathType) -> list[int]:
        """NICs in the order NCCL tries them (ncclTopoSelectNets), for one GPU or (None) to start from."""
        key = ("nics_for", gpu, farthest)
        if key not in self.graph.memo:
            self.graph.memo[key] = self._nics_for(gpu, farthest)
        order: list[int] = self.graph.memo[key]
        return order

    def _nics_for(self, gpu: int | None, farthest: PathType) -> list[int]:
        chosen = range(len(self.gpus)) if gpu is None else (gpu,)
        preferred = [self._preferred[g] for g in chosen]
        order: dict[int, None] = {}
        if (
            len({self.graph.host[g] for g in self.gpus}) > 1
        ):  # NVLink over hosts: one of each GPU first
            for turn in range(max(map(len, preferred), default=0)):
                order.update(dict.fromkeys(nics[turn] for nics in preferred if turn < len(nics)))
        else:
            order.update(dict.fromkeys(nic for nics in preferred for nic in nics))
        by_type: dict[PathType, dict[int, None]] = {}
        for g in chosen:
            for n, nic in enumerate(self.nics):
                kind = self.way(self.gpus[g], nic).type
                if kind <= farthest:
                    by_type.setdefault(kind, {})[n] = None
        for kind in sorted(by_type):
            order.update(by_type[kind])
        return list(order)


class _Ways(dict[int, Way]):
    """The paths from one GPU to the others by number, each made when it is asked for first."""

    def __init__(self, system: System, gpu: str) -> None:
        super().__init__()
        self._system, self._gpu = system, gpu

    def __missing__(self, other: int) -> Way:
        way = self[other] = self._system.way(self._gpu, self._system.gpus[other])
        return way
