"""A fabric as InfraGraph (github.com/Keysight/infragraph, schema 2): templates, instances, links, edges.

Equal hosts share one template. InfraGraph draws one edge between two parts, so parallel links are one edge
at their total rate and say so in the link's description, and so do those whose ends, NICs and switches,
are on a rail, as InfraGraph has no rails. Its links have no direction: a fabric whose two directions
differ is refused. Links that are down, and memory, are left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.topology.exporting.infragraph_names import Names, Numbered, numbered
from clusterlab.topology.exporting.infragraph_rails import rail_words
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

_CHOICES = {"gpu": "xpu", "cpu": "cpu", "nic": "nic"}


@dataclass(frozen=True, slots=True)
class _LinkKind:
    """Links written as one: ``count`` parallel ones of ``GBps`` each (what is left of it).

    ``rail`` is that of both ends, or of a NIC or switch at one (``infragraph_rails``).
    """

    link_class: str
    GBps: float | None
    latency_us: float | None
    count: int
    rail: str = ""


@dataclass(frozen=True, slots=True)
class _Edge:
    """A connection of two devices, both directions, by their names."""

    a: str
    b: str
    kind: _LinkKind


@dataclass(frozen=True, slots=True)
class _HostType:
    """What equal hosts have: (local name, choice, description) of devices, and edges of local names."""

    devices: tuple[tuple[str, str, str], ...]
    edges: tuple[_Edge, ...]


class _LinkNames:
    """Names of the link kinds in use: class and rail, numbered where several have the same."""

    def __init__(self) -> None:
        self.kinds: dict[_LinkKind, str] = {}
        self.given = Names()

    def name(self, kind: _LinkKind) -> str:
        """The name of a kind, the same each time."""
        if kind not in self.kinds:
            rail = re.fullmatch(r"rail \d+", kind.rail)
            name = kind.link_class + (f"-{kind.rail.replace(' ', '')}" if rail else "")
            self.kinds[kind] = self.given.give(name)
        return self.kinds[kind]

    def lines(self, indent: str) -> list[str]:
        """Their definitions."""
        lines = [f"{indent}links:{'' if self.kinds else ' []'}"]
        for kind, name in self.kinds.items():
            lines.append(f"{indent}- name: {name}")
            described = _described(kind)
            if described:
                lines.append(f"{indent}  description: {json.dumps(described)}")
            if kind.GBps is not None or kind.latency_us is not None:
                lines.append(f"{indent}  physical:")
            if kind.GBps is not None:
                unit = "gigabytes_per_second"
                total = _number(kind.GBps * kind.count)
                lines.append(f"{indent}    bandwidth: {{choice: {unit}, {unit}: {total}}}")
            if kind.latency_us is not None:
                lines.append(f"{indent}    latency: {{choice: us, us: {_number(kind.latency_us)}}}")
        return lines


def _described(kind: _LinkKind) -> str:
    """``4 parallel links of 50 GB/s each; rail 3``, as far as there is something to say."""
    each = "" if kind.GBps is None else f" of {kind.GBps:.12g} GB/s each"
    parallel = f"{kind.count} parallel links{each}" if kind.count > 1 else ""
    return "; ".join(words for words in (parallel, kind.rail) if words)


def _number(value: float) -> str:
    """A number that YAML 1.1 reads as one: it takes an exponent only after a point."""
    text = f"{value:.12g}"
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def infragraph(fabric: Fabric) -> str:
    """The infrastructure as YAML, as InfraGraphService.set_graph takes it.

    Names keep letters, digits, ``_`` and ``-``; other characters become ``-``. Raises UsageError where the
    two directions of a connection differ.
    """
    names = Names()
    outside = fabric.network_devices
    between = list(_edges(fabric, fabric.network_links))
    ports = Counter(end for edge in between for end in (edge.a, edge.b))
    types = _host_types(fabric, ports)
    devices: list[str] = []
    places: dict[str, Numbered] = {}
    layouts: dict[str, dict[str, Numbered]] = {}
    instances: list[tuple[str, str, int]] = []
    for number, (kind, hosts) in enumerate(types.items()):
        layout = numbered([local for local, _, _ in kind.devices], Names())
        layouts |= dict.fromkeys(hosts, layout)
        name = f"host-type-{number + 1}"
        devices += _host_device(name, kind, layout)
        instances += _place(hosts, name, names, places)
    for (switch_kind, count), members in _by_kind(outside, ports).items():
        name = f"{switch_kind}-of-{count}-ports"
        devices += _switch_device(name, switch_kind, count)
        instances += _place(members, name, names, places)
    links = _LinkNames()
    edges = list(_network_edges(fabric, between, links, places, layouts))
    lines = [f"name: {json.dumps(fabric.name)}"]
    if fabric.description:
        lines.append(f"description: {json.dumps(fabric.description, ensure_ascii=False)}")
    lines += ["devices:" if devices else "devices: []", *devices]
    lines.append("instances:")
    for instance, device, total in instances:
        lines.append(f"- {{name: {instance}, device: {device}, count: {total}}}")
    lines += links.lines("")
    lines += ["edges:" if edges else "edges: []", *edges]
    return "\n".join(lines) + "\n"


def _host_types(fabric: Fabric, cabled: Collection[str]) -> dict[_HostType, list[str]]:
    types: defaultdict[_HostType, list[str]] = defaultdict(list)
    for host in fabric.hosts:
        devices = fabric.on_host(host)
        inside = {d.name for d in devices}
        links = [link for d in devices for link in fabric.links_from(d.name) if link.dst in inside]
        edges = [
            _Edge(_local(edge.a, host), _local(edge.b, host), edge.kind)
            for edge in _edges(fabric, links, without_rail=cabled)
        ]
        described = [(_local(d.name, host), _choice(d), d.model or "") for d in devices]
        types[_HostType(tuple(described), tuple(edges))].append(host)
    return dict(types)


def _local(name: str, host: str) -> str:
    """A device's name inside its host; one that is called as its host is ``host``."""
    return "host" if name == host else name.removeprefix(f"{host}/")


def _choice(device: Device) -> str:
    if device.kind == "nic" and device.role == "management":
        return "mgmt-nic"
    return _CHOICES.get(device.kind, device.kind)


def _edges(
    fabric: Fabric, links: Iterable[Link], *, without_rail: Collection[str] = ()
) -> Iterator[_Edge]:
    """Connections, each once, with what both directions agree on.

    The rail of a NIC stands at its network's cables; ``without_rail`` are the devices that have some.
    """
    ways: defaultdict[tuple[str, str], Counter[tuple[str, float | None, float | None]]]
    ways = defaultdict(Counter)
    for link in links:
        if link.src != link.dst and link.health > 0:
            rate = None if link.GBps is None else round(link.GBps * link.health, 9)
            ways[link.src, link.dst][link.link_class, rate, link.latency_us] += link.multiplicity
    for (a, b), kinds in ways.items():
        if ways.get((b, a)) != kinds:
            raise UsageError(
                f"the two directions between {a} and {b} differ",
                where=f"fabric {fabric.name}",
                expected="equal directions: InfraGraph's links have none",
            )
    done: set[tuple[str, str]] = set()
    for (a, b), kinds in ways.items():
        if (b, a) not in done:
            done.add((a, b))
            told = {a, b}.isdisjoint(without_rail)
            rail = rail_words(fabric.device(a), fabric.device(b)) if told else ""
            for (link_class, GBps, latency_us), count in kinds.items():
                yield _Edge(a, b, _LinkKind(link_class, GBps, latency_us, count, rail))


def _by_kind(
    outside: Sequence[Device], ports: Mapping[str, int]
) -> dict[tuple[str, int], list[str]]:
    """Devices outside hosts by kind, with the ports that the kind's template needs for all of them."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    most: Counter[str] = Counter()
    for d in outside:
        found[d.kind].append(d.name)
        most[d.kind] = max(most[d.kind], d.ports or 0, ports.get(d.name, 0))
    return {(kind, most[kind]): members for kind, members in found.items()}


def _place(
    members: Sequence[str], device: str, names: Names, places: dict[str, Numbered]
) -> list[tuple[str, str, int]]:
    """Instances for ``members``: (name, device, count); fills in where each member is."""
    found = numbered(members, names)
    places |= found
    counts = Counter(place.name for place in found.values())
    return [(name, device, count) for name, count in counts.items()]


def _host_device(name: str, kind: _HostType, layout: Mapping[str, Numbered]) -> list[str]:
    links = _LinkNames()
    edges = [
        f"  - {{ep1: {{component: {_at(layout[edge.a])}}}, ep2: {{component: {_at(layout[edge.b])}}},"
        f" scheme: one2one, link: {links.name(edge.kind)}}}"
        for edge in kind.edges
    ]
    counts = Counter(place.name for place in layout.values())
    lines = [f"- name: {name}", "  components:"]
    done: set[str] = set()
    for local, choice, description in kind.devices:
        component = layout[local].name
        if component in done:
            continue
        done.add(component)
        lines += _component(component, choice, counts[component], description)
    return [*lines, *links.lines("  "), "  edges:" if edges else "  edges: []", *edges]


def _component(name: str, choice: str, count: int, description: str = "") -> Iterator[str]:
    yield f"  - name: {name}"
    if description:
        yield f"    description: {json.dumps(description, ensure_ascii=False)}"
    yield f"    count: {count}"
    if choice in ("xpu", "cpu", "nic", "port"):
        yield f"    choice: {choice}"
    else:
        yield "    choice: custom"
        yield f"    custom: {{type: {choice}}}"


def _switch_device(name: str, kind: str, ports: int) -> list[str]:
    lines = [f"- name: {name}", "  components:", *_component("asic", kind, 1)]
    if not ports:
        return [*lines, "  links: []", "  edges: []"]
    return [
        *lines,
        *_component("port", "port", ports),
        "  links:",
        "  - name: internal",
        "  edges:",
        "  - {ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: internal}",
    ]


def _network_edges(
    fabric: Fabric,
    between: Iterable[_Edge],
    links: _LinkNames,
    places: Mapping[str, Numbered],
    layouts: Mapping[str, Mapping[str, Numbered]],
) -> Iterator[str]:
    used: Counter[str] = Counter()

    def end(name: str) -> str:
        host = fabric.host_of(name)
        if host is not None:
            component = layouts[host][_local(name, host)]
            return f"{{instance: {_at(places[host])}, component: {_at(component)}}}"
        port = used[name]
        used[name] += 1
        return f'{{instance: {_at(places[name])}, component: "port[{port}]"}}'

    for edge in between:
        a, b = end(edge.a), end(edge.b)
        yield f"- {{ep1: {a}, ep2: {b}, scheme: one2one, link: {links.name(edge.kind)}}}"


def _at(place: Numbered) -> str:
    return f'"{place.name}[{place.index}]"'
