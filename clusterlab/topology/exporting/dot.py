"""A fabric for Graphviz: every device, or groups of them where there are too many to look at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.network_groups import network_of
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link

MOST_DEVICES = 200
"""Beyond this many devices groups are drawn."""

_MOST_GROUPS = 60

_SHAPES = {
    "gpu": "box",
    "nvswitch": "hexagon",
    "pcie_switch": "diamond",
    "host_bridge": "diamond",
    "cpu": "ellipse",
    "nic": "cds",
    "host": "box3d",
    "leaf": "hexagon",
    "spine": "hexagon",
    "core": "hexagon",
    "external": "note",
}
_RANKS = ("core", "spine", "leaf")


@dataclass(frozen=True, slots=True)
class _Edge:
    """A connection of any number of cables: both directions together."""

    a: str
    b: str
    link_class: str
    GBps: float | None
    health: float


def dot(fabric: Fabric, *, most_devices: int = MOST_DEVICES) -> str:
    """The fabric as an undirected graph; a cable's two directions are one edge.

    With more than ``most_devices`` devices, equal hosts on the same leaves are one node, and so are their
    leaves, the spines of a pod and the cores; links that are down or degraded are dashed.
    """
    body = _every_device(fabric) if len(fabric.devices) <= most_devices else _groups(fabric)
    lines = [
        f"graph {_quoted(fabric.name)} {{",
        "  rankdir=TB; node [fontsize=10]; edge [fontsize=8];",
        *body,
        "}",
    ]
    return "\n".join(lines) + "\n"


def _every_device(fabric: Fabric) -> Iterator[str]:
    for i, host in enumerate(fabric.hosts):
        yield f"  subgraph cluster_{i} {{ label={_quoted(host)};"
        for device in fabric.on_host(host):
            local = device.name.removeprefix(f"{host}/")
            yield f"    {_node(device.name, local, device)}"
        yield "  }"
    for device in fabric.devices:
        if device.host is None:
            yield f"  {_node(device.name, device.name, device)}"
    yield from _ranked({d.name: d.kind for d in fabric.devices if d.kind in SWITCH_KINDS})
    for edge, count in _edges(fabric.links).items():
        yield f"  {_line(edge, count)}"


def _node(name: str, label: str, device: Device) -> str:
    model = f"\n{device.model}" if device.model else ""
    return f"{_quoted(name)} [label={_quoted(label + model)} shape={_SHAPES[device.kind]}];"


def _ranked(kinds: Mapping[str, str]) -> Iterator[str]:
    """Switches of one tier side by side."""
    for kind in _RANKS:
        names = [name for name, k in kinds.items() if k == kind]
        if names:
            yield f"  {{ rank=same; {' '.join(_quoted(n) + ';' for n in names)} }}"


def _edges(links: Iterable[Link]) -> Counter[_Edge]:
    """Connections with their number of cables; a cable counts once for its two directions."""
    found: Counter[_Edge] = Counter()
    for link in links:
        a, b = sorted((link.src, link.dst))
        if link.src == a:
            found[_Edge(a, b, link.link_class, link.GBps, link.health)] += link.multiplicity
    # A link of one direction only, from the later name to the earlier one.
    seen = {(edge.a, edge.b) for edge in found}
    for link in links:
        if link.src > link.dst and (link.dst, link.src) not in seen:
            edge = _Edge(link.dst, link.src, link.link_class, link.GBps, link.health)
            found[edge] += link.multiplicity
    return found


def _line(edge: _Edge, count: int) -> str:
    rate = "?" if edge.GBps is None else f"{edge.GBps:g}"
    label = f"{count} × {edge.link_class} {rate} GB/s" if count > 1 else f"{edge.link_class} {rate}"
    style = ""
    if edge.health < 1:
        style = " style=dashed color=red"
        label += " down" if edge.health == 0 else f" at {edge.health:.0%}"
    return f"{_quoted(edge.a)} -- {_quoted(edge.b)} [label={_quoted(label)}{style}];"


def _groups(fabric: Fabric) -> Iterator[str]:
    """Hosts on the same leaves as one node, and the switches of each group as one."""
    group_of, labels = _by_unit(fabric)
    if len(labels) > _MOST_GROUPS:
        group_of, labels = _by_kind(fabric)
    for name, (label, kind) in labels.items():
        yield f"  {_quoted(name)} [label={_quoted(label)} shape={_SHAPES[kind]}];"
    yield from _ranked({name: kind for name, (_, kind) in labels.items()})
    between: Counter[_Edge] = Counter()
    for edge, count in _edges(fabric.network_links).items():
        ends = [group_of.get(fabric.host_of(end) or end) for end in (edge.a, edge.b)]
        if None not in ends and ends[0] != ends[1]:
            a, b = sorted(str(end) for end in ends)
            between[_Edge(a, b, edge.link_class, edge.GBps, edge.health)] += count
    for edge, count in between.items():
        yield f"  {_line(edge, count)}"


_Grouping = tuple[dict[str, str], dict[str, tuple[str, str]]]
"""(group of each host and switch, label and kind of each group)."""


def _by_unit(fabric: Fabric) -> _Grouping:
    group_of: dict[str, str] = {}
    labels: dict[str, tuple[str, str]] = {}
    network = network_of(fabric)
    for level, tier in enumerate(network.tiers):
        kind = SWITCH_KINDS[min(level, len(SWITCH_KINDS) - 1)]
        for i, group in enumerate(tier):
            name = f"{kind} group {i + 1}"
            group_of |= dict.fromkeys(group.switches, name)
            labels[name] = (_label(group.switches, kind), kind)
            if group.hosts:
                hosts = f"hosts {i + 1}"
                group_of |= dict.fromkeys(group.hosts, hosts)
                labels[hosts] = (_host_label(fabric, group.hosts), "host")
    rest: defaultdict[str, list[str]] = defaultdict(list)
    for device in fabric.network_devices:
        if device.name not in group_of:
            rest[device.kind].append(device.name)
    for kind_name, names in rest.items():
        group_of |= dict.fromkeys(names, f"other {kind_name}")
        labels[f"other {kind_name}"] = (_label(names, kind_name), kind_name)
    if network.loose:
        group_of |= dict.fromkeys(network.loose, "other hosts")
        labels["other hosts"] = (_host_label(fabric, network.loose), "host")
    return group_of, labels


def _by_kind(fabric: Fabric) -> _Grouping:
    """All hosts, all leaves, …: for fabrics with very many groups."""
    group_of = dict.fromkeys(fabric.hosts, "hosts")
    labels = {"hosts": (_host_label(fabric, fabric.hosts), "host")} if fabric.hosts else {}
    kinds: defaultdict[str, list[str]] = defaultdict(list)
    for device in fabric.network_devices:
        kinds[device.kind].append(device.name)
    for kind, names in kinds.items():
        group_of |= dict.fromkeys(names, kind)
        labels[kind] = (_label(names, kind), kind)
    return group_of, labels


def _label(names: Iterable[str], kind: str) -> str:
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{len(listed)} × {kind}\n{listed[0]} … {listed[-1]}"


def _host_label(fabric: Fabric, hosts: Iterable[str]) -> str:
    listed = list(hosts)
    gpus = sum(len(fabric.on_host(host, "gpu")) for host in listed)
    return f"{_label(listed, 'host')}\n{gpus} GPUs"


def _quoted(text: str) -> str:
    """A DOT string; a line break stays one."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
