"""A fabric as YAML that ``load_fabric`` reads back: equal hosts once, all else written out.

For imports and discoveries. A design, or a design with failures, is kept by reference instead
(``base`` and ``broken``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.formats.strict_yaml import MAX_BYTES
from clusterlab.topology.design.parts import LinkKind
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.repeated import Group, Repeated

_FIGURES = tuple(f.name for f in fields(LinkKind))
_UNSOURCED = "not stated"


def fabric_to_yaml(fabric: Fabric) -> str:
    """The fabric as a design of single devices and links. Reading it back gives an equal fabric, apart
    from ``origin`` and ``digest``. Raises UsageError for a fabric larger than a design may be.
    """
    import yaml

    kinds: dict[tuple[object, ...], str] = {}
    parts = _split(fabric)
    document: dict[str, Any] = {"name": fabric.name}
    if fabric.description:
        document["description"] = fabric.description
    document["links"] = {}
    if parts.hosts:
        document["hosts"] = {
            "names": list(parts.hosts),
            "devices": [_device(replace(d, host=None)) for d in parts.inside],
            "links": _wirings(parts.inside_links, kinds),
        }
    document["network"] = {
        "devices": [_device(d) for d in parts.others],
        "links": _wirings(parts.other_links, kinds),
    }
    document["links"] = {
        name: _kind(dict(zip(_FIGURES, figures, strict=True))) for figures, name in kinds.items()
    }
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=1000)
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{len(fabric.devices)} devices and {len(fabric.links)} links",
            where=f"fabric {fabric.name}",
            expected=f"what fits in {MAX_BYTES} bytes of YAML",
            fix="keep it by reference: `base: NAME` and `broken: [...]` in a file",
        )
    return text


@dataclass(frozen=True)
class _Parts:
    """A fabric as a design writes it: one template of equal hosts, and the rest."""

    hosts: tuple[str, ...]
    inside: tuple[Device, ...]
    inside_links: tuple[Link, ...]
    others: tuple[Device, ...]
    other_links: tuple[Link, ...]


def _split(fabric: Fabric) -> _Parts:
    """The largest group of equal hosts as the template; its links too where they stay inside it."""
    groups = sorted(fabric.equal_hosts, key=lambda group: group.count)
    devices, links = fabric.devices, fabric.links
    if not groups or not isinstance(devices, Repeated) or not isinstance(links, Repeated):
        return _Parts((), (), (), tuple(devices), tuple(links))
    chosen = groups[-1]
    names = {d.name for d in chosen.items}
    same = [group for group in links.groups if group.hosts == chosen.hosts]
    inside = [x for group in same for x in group.items if {x.src, x.dst} <= names]
    left = [
        Group(g.hosts, tuple(x for x in g.items if g not in same or not {x.src, x.dst} <= names))
        for g in links.groups
    ]
    return _Parts(
        chosen.hosts,
        chosen.items,
        tuple(inside),
        tuple(Repeated(groups[:-1], devices.single, devices.at_host)),
        tuple(Repeated(left, links.single, links.at_host)),
    )


def _wirings(links: Sequence[Link], kinds: dict[tuple[object, ...], str]) -> list[dict[str, Any]]:
    return [_wiring(link, one_way, kinds) for link, one_way in _cables(links)]


def _cables(links: Sequence[Link]) -> Iterator[tuple[Link, bool]]:
    """Each pair of equal links that run both ways once, any other link with True: one way."""
    waiting: dict[Link, int] = {}
    order: list[Link] = []
    for link in links:
        back = _back(link)
        if link.src != link.dst and waiting.get(back, 0):
            waiting[back] -= 1
            order.append(back)
        else:
            waiting[link] = waiting.get(link, 0) + 1
    for link in order:
        yield link, False
    for link, left in waiting.items():
        for _ in range(left):
            yield link, True


def _back(link: Link) -> Link:
    return Link(
        **{f.name: getattr(link, f.name) for f in fields(Link)} | {"src": link.dst, "dst": link.src}
    )


def _wiring(link: Link, one_way: bool, kinds: dict[tuple[object, ...], str]) -> dict[str, Any]:
    figures = tuple(getattr(link, name) for name in _FIGURES)
    kind = kinds.setdefault(figures, f"{link.link_class}{len(kinds)}")
    wiring: dict[str, Any] = {"between": [link.src, link.dst], "type": kind}
    if link.multiplicity != 1:
        wiring["multiplicity"] = link.multiplicity
    if link.health != 1:
        wiring["health"] = link.health
    for name in ("rail", "plane"):
        value = getattr(link, name)
        wiring[name] = "unknown" if value is None else value
    if one_way:
        wiring["one_way"] = True
    return wiring


def _kind(figures: dict[str, Any]) -> dict[str, Any]:
    """One entry of ``links``: figures that are known with their source, GBps in any case."""
    kind: dict[str, Any] = {"class": figures["link_class"]}
    for name, source in (
        ("GBps", "GBps_source"),
        ("wire_GBps", "wire_source"),
        ("latency_us", "latency_source"),
    ):
        if figures[name] is not None:
            kind[name] = figures[name]
            kind[source] = figures[source] or _UNSOURCED
        elif name == "GBps":
            kind[name] = "unknown"
    return kind


def _device(device: Device) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": device.name, "kind": device.kind}
    for field in fields(Device):
        value = getattr(device, field.name)
        if field.name in ("name", "kind", "memory_bytes") or value is None or value is False:
            continue
        entry[field.name] = value
    if device.memory_bytes is not None:
        entry["memory_GiB"] = device.memory_bytes / (1 << 30)
    return entry
