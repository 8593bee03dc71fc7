"""Made-up InfiniBand sites with rails, written as ibnetdiscover writes them; faults put in on purpose."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

End = tuple[str, int]


@dataclass(frozen=True)
class Wire:
    """A cable between two ports at a rate such as ``4xNDR``."""

    a: End
    b: End
    rate: str = "4xNDR"


@dataclass(frozen=True)
class Site:
    """Nodes (id → description) and cables. ``hosts`` and ``leaves`` say which is which."""

    nodes: dict[str, str]
    wires: tuple[Wire, ...]
    leaf: dict[tuple[int, int], str]
    nic: dict[tuple[int, int, int], str]
    spines: tuple[str, ...]
    rails: int
    ports: int = 65

    def wire_of(self, nic: str) -> Wire:
        return next(w for w in self.wires if nic in (w.a[0], w.b[0]))

    def uplinks(self, leaf: str, spine: str) -> list[Wire]:
        return [w for w in self.wires if {w.a[0], w.b[0]} == {leaf, spine}]


class _Ids:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{0x0C42A10300000000 + self.count * 4:016x}"


def device_name(style: str, index: int) -> str:
    return {"mlx5": f"mlx5_{index}", "HCA": f"HCA-{index + 1}", "ib": f"ibp{16 + index}s0"}[style]


@st.composite
def sites(draw: st.DrawFn) -> Site:
    """A healthy site: racks × rails leaves, each host with one NIC a rail, every leaf to every spine."""
    racks, rails = draw(st.integers(3, 5)), draw(st.integers(3, 8))
    hosts = draw(st.integers(4, 7))
    spines, parallel = draw(st.integers(2, 5)), draw(st.integers(1, 3))
    indices = sorted(draw(st.sets(st.integers(0, 11), min_size=rails, max_size=rails)))
    mixed = draw(st.booleans())
    styles = [draw(st.sampled_from(["mlx5", "HCA"])) if mixed else "ib" for _ in range(racks)]
    told = draw(st.booleans())
    shuffled = random.Random(draw(st.integers(0, 2**16)))
    return _build(racks, rails, hosts, spines, parallel, indices, styles, told, shuffled)


def _build(
    racks: int,
    rails: int,
    hosts: int,
    spines: int,
    parallel: int,
    indices: list[int],
    styles: list[str],
    told: bool,
    shuffled: random.Random,
) -> Site:
    new, nodes, wires = _Ids(), {}, []
    spine_ids = tuple(new("S") for _ in range(spines))
    nodes |= {s: f"MF0;site-spine-{i:02d}:MQM9700/U1" for i, s in enumerate(spine_ids, 1)}
    free: defaultdict[str, int] = defaultdict(int)

    def port(node: str) -> int:
        free[node] += 1
        return free[node]

    leaf, nic = {}, {}
    numbers = shuffled.sample(range(100, 999), racks * rails)
    for rack in range(racks):
        for rail in range(rails):
            name = f"leaf-{rail + 1:02d}-{rack + 1:02d}" if told else f"sw{numbers.pop()}"
            leaf[rack, rail] = new("S")
            nodes[leaf[rack, rail]] = f"MF0;{name}:MQM9700/U1"
        for host in range(hosts):
            for rail, index in enumerate(indices):
                one = nic[rack, host, rail] = new("H")
                nodes[one] = f"r{rack}-node{host:02d} {device_name(styles[rack], index)}"
                at = leaf[rack, rail]
                wires.append(Wire((at, port(at)), (one, 1)))
    for one in leaf.values():
        wires += [
            Wire((one, port(one)), (spine, port(spine)))
            for spine in spine_ids
            for _ in range(parallel)
        ]
        aggregation = new("H")
        nodes[aggregation] = "Mellanox Technologies Aggregation Node"
        wires.append(Wire((one, 65), (aggregation, 1)))
    return Site(nodes, tuple(wires), leaf, nic, spine_ids, rails)


def exchanged(site: Site, one: str, other: str) -> Site:
    """Two NICs' cables exchanged at the switches."""
    return rewired(site, site.wire_of(one), site.wire_of(other))


def rewired(site: Site, first: Wire, second: Wire) -> Site:
    """The far ends of two cables exchanged."""
    swap = {first: replace(first, b=second.b), second: replace(second, b=first.b)}
    return replace(site, wires=tuple(swap.get(w, w) for w in site.wires))


def without_wires(site: Site, gone: list[Wire]) -> Site:
    return replace(site, wires=tuple(w for w in site.wires if w not in gone))


def without_node(site: Site, node: str) -> Site:
    return replace(
        site,
        nodes={n: d for n, d in site.nodes.items() if n != node},
        wires=tuple(w for w in site.wires if node not in (w.a[0], w.b[0])),
    )


def at_rate(site: Site, wire: Wire, rate: str) -> Site:
    return replace(site, wires=tuple(replace(w, rate=rate) if w == wire else w for w in site.wires))


def described(site: Site, node: str, description: str) -> Site:
    return replace(site, nodes={**site.nodes, node: description})


@dataclass
class Written:
    """How the text is written."""

    full: bool = False
    chassis: bool = False
    one_sided: set[End] = field(default_factory=set)


def blocks(site: Site, how: Written | None = None) -> str:
    """The site as ``ibnetdiscover`` prints it (``-f`` and ``-g`` as ``how`` says)."""
    how = how or Written()
    sides: defaultdict[str, list[tuple[int, End, str]]] = defaultdict(list)
    for wire in site.wires:
        for near, far in ((wire.a, wire.b), (wire.b, wire.a)):
            if near not in how.one_sided:
                sides[near[0]].append((near[1], far, wire.rate))
    lines = ["#", "# Topology file: generated on Mon Nov 30 10:00:00 2026", "#"]
    if how.chassis:
        lines += ["", "Non-Chassis Nodes"]
    for node in sorted(site.nodes, key=lambda n: n[0] != "S"):
        lines += ["", *_block(site, node, sorted(sides[node]), how)]
    return "\n".join(lines) + "\n"


def _block(site: Site, node: str, sides: list[tuple[int, End, str]], how: Written) -> list[str]:
    guid = node[2:].lstrip("0")
    switch = node[0] == "S"
    kind = "switchguid" if switch else "caguid"
    lines = ["vendid=0x2c9", f"devid={'0xd2f2' if switch else '0x1021'}", f"sysimgguid=0x{guid}"]
    if how.chassis and switch:
        lines[-1] += "\t\t# Chassis 1"
    lines.append(f"{kind}=0x{guid}" + (f"({guid})" if switch else ""))
    head, text = ("Switch", "enhanced port 0 lid 7 lmc 0") if switch else ("Ca", "")
    ports = site.ports if switch else 1
    lines.append(f'{head}\t{ports} "{node}"\t\t# "{site.nodes[node]}" {text}'.rstrip())
    tail = " s=4 w=2 v=4 e=8" if how.full else ""
    ext = "[ext 3]" if how.chassis and switch else ""
    for number, (far, far_port), rate in sides:
        far_guid = "" if far[0] == "S" else f"({far[2:].lstrip('0')}) "
        own = "" if switch else f"({guid}) "
        lid = "" if switch else "lid 5 lmc 0 "
        lines.append(
            f'[{number}]{ext}{own}\t"{far}"[{far_port}]{far_guid}\t\t'
            f'# {lid}"{site.nodes[far]}" lid 9 {rate}{tail}'
        )
    return lines


def port_lines(site: Site) -> str:
    """The site as ``ibnetdiscover -p`` prints it, a port without a cable at the end of each switch."""
    lines = []
    for wire in site.wires:
        for near, far in ((wire.a, wire.b), (wire.b, wire.a)):
            kinds = ["SW" if end[0][0] == "S" else "CA" for end in (near, far)]
            width, _, speed = wire.rate.partition("x")
            lines.append(
                f"{kinds[0]} {7:5d} {near[1]:2d} 0x{near[0][2:]} {width}x {speed} - "
                f"{kinds[1]} {9:5d} {far[1]:2d} 0x{far[0][2:]} "
                f"( '{site.nodes[near[0]]}' - '{site.nodes[far[0]]}' )"
            )
    for node, text in site.nodes.items():
        if node[0] == "S":
            lines.append(f"SW {7:5d} 64 0x{node[2:]} 4x SDR                            '{text}'")
    return "\n".join(lines) + "\n"


class Builder:
    """A site put together by hand: switches by name, hosts' NICs, cables in the next free ports."""

    def __init__(self) -> None:
        self._new = _Ids()
        self._free: defaultdict[str, int] = defaultdict(int)
        self.nodes: dict[str, str] = {}
        self.wires: list[Wire] = []

    def switch(self, name: str, model: str = "SX6036") -> str:
        node = self._new("S")
        self.nodes[node] = f"MF0;{name}:{model}/U1" if "/" not in name else f"MF0;{name}"
        return node

    def switches(self, name: str, count: int) -> list[str]:
        return [self.switch(f"{name}{i:02d}") for i in range(1, count + 1)]

    def nic(self, description: str, leaf: str, rate: str = "4xFDR") -> str:
        node = self._new("H")
        self.nodes[node] = description
        self.wires.append(Wire((leaf, self._port(leaf)), (node, 1), rate))
        return node

    def join(self, lower: str, upper: str, cables: int = 1, rate: str = "4xFDR") -> None:
        for _ in range(cables):
            self.wires.append(Wire((lower, self._port(lower)), (upper, self._port(upper)), rate))

    def _port(self, node: str) -> int:
        self._free[node] += 1
        return self._free[node]

    def site(self) -> Site:
        return Site(self.nodes, tuple(self.wires), {}, {}, (), 0, ports=36)
