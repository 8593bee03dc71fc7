"""A fabric as YAML that ``load_fabric`` reads back: equal hosts once, all else written out.

For imports and discoveries. A design, or a design with failures, is kept by reference instead
(``base`` and ``broken``).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import compress_hostlist, expand_hostlist
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
            "names": _names(parts.hosts),
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
    text: str = yaml.dump(
        document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1000
    )
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{len(fabric.devices)} devices and {len(fabric.links)} links",
            where=f"fabric {fabric.name}",
            expected=f"what fits in {MAX_BYTES} bytes of YAML",
            fix="keep it by reference: `base: NAME` and `broken: [...]` in a file",
        )
    return text


def _names(hosts: Sequence[str]) -> str | list[str]:
    """A hostlist where it means these names, else the names."""
    short = compress_hostlist(hosts)
    try:
        same = expand_hostlist(short, limit=len(hosts)) == list(hosts)
    except UsageError:  # a name that no host of Slurm has
        same = False
    return short if same else list(hosts)


class _OneLine(list[Any]):
    """A list that is written in one line."""


def _dumper() -> Any:
    import yaml

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """PyYAML's safe one."""

    Dumper.add_representer(
        _OneLine,
        lambda dumper, items: dumper.represent_sequence(
            "tag:yaml.org,2002:seq", items, flow_style=True
        ),
    )
    return Dumper


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
    if any("[" in host for host in chosen.hosts):  # would be read as a hostlist
        return _Parts((), (), (), tuple(devices), tuple(links))
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
    return [_wiring(link, back, kinds) for link, back in _cables(links)]


def _cables(links: Sequence[Link]) -> Iterator[tuple[Link, Link | None]]:
    """Each pair of links that run both ways and are equal but for their ports once, any other link alone."""
    waiting: defaultdict[Link, deque[Link]] = defaultdict(deque)
    for link in links:
        there = waiting.get(_back(link))
        if link.src != link.dst and there:
            yield there.popleft(), link
        else:
            waiting[replace(link, ports=())].append(link)
    for left in waiting.values():
        for link in left:
            yield link, None


def _back(link: Link) -> Link:
    """The link of the other direction, its ports aside."""
    return replace(link, src=link.dst, dst=link.src, ports=())


def _wiring(link: Link, back: Link | None, kinds: dict[tuple[object, ...], str]) -> dict[str, Any]:
    figures = tuple(getattr(link, name) for name in _FIGURES)
    kind = kinds.setdefault(figures, f"{link.link_class}{len(kinds)}")
    wiring: dict[str, Any] = {"between": _OneLine([link.src, link.dst]), "type": kind}
    if link.multiplicity != 1:
        wiring["multiplicity"] = link.multiplicity
    if link.health != 1:
        wiring["health"] = link.health
    for name in ("rail", "plane"):
        value = getattr(link, name)
        wiring[name] = "unknown" if value is None else value
    if back is None:
        wiring["one_way"] = True
    if link.ports or (back is not None and back.ports):
        wiring["ports"] = _OneLine([list(link.ports), [] if back is None else list(back.ports)])
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
