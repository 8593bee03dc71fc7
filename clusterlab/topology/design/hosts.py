"""The ``hosts`` part of a design: their names, and what is inside each, their own or like another's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.formats.fields import at, mapping, sequence, short, text, whole
from clusterlab.formats.hostlist import expand_hostlist
from clusterlab.formats.strict_yaml import Document, read_yaml
from clusterlab.topology.design.files import is_file, read_design, shipped_design
from clusterlab.topology.design.numbers import need_number, with_number
from clusterlab.topology.design.parts import (
    MAX_DEVICES,
    MAX_LINKS,
    LinkKind,
    device_groups,
    limit,
    link_kind,
    wired,
)
from clusterlab.topology.design.wiring import connect, numbered
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

_KEYS = ("count", "name", "start", "names", "like", "without", "devices", "links")
_COUNTED = ("count", "name", "start")
_MAX_LIKE = 8
"""How many designs may take their hosts from each other in a row: more is a circle."""


Build = Callable[[Path, int], Fabric]
"""The fabric of a design's file, to which so many others led."""


@dataclass(frozen=True)
class Hosts:
    """Kinds of link, host names, one host's devices and links under local names.

    ``files`` are those that were read for it beside the design.
    """

    kinds: dict[str, LinkKind]
    names: list[str]
    devices: list[Device]
    links: list[Link]
    files: tuple[Path, ...] = ()


def hosts_of(document: Document, build: Build, *, depth: int = 0) -> Hosts:
    """What ``document`` says of its hosts. Raises UsageError naming file, line and field.

    ``build`` makes the fabric of another file; ``depth`` is how many designs led to this one.
    """
    kinds = {
        name: link_kind(document, name)
        for name in mapping(document, ("links",), None, optional=True)
    }
    if not mapping(document, ("hosts",), _KEYS, optional=True):
        return Hosts(kinds, [], [], [])
    names = _names(document)
    base = _like(document, build, depth)
    kinds = base.kinds | kinds
    more = device_groups(
        document, ("hosts", "devices"), host="", taken={d.name for d in base.devices}
    )
    devices = [*base.devices, *more]
    links = [*base.links, *wired(document, ("hosts", "links"), devices, kinds)]
    limit(len(names) * len(devices), MAX_DEVICES, "devices", document)
    limit(len(names) * len(links), MAX_LINKS, "links", document)
    return Hosts(kinds, names, devices, links, base.files)


def like_file(document: Document) -> Path | None:
    """The file of one's own that the hosts are like; a path in it is looked for beside the design first."""
    said = at(document, ("hosts", "like"))
    if not isinstance(said, str) or not said:
        return None
    beside = Path(document.file).parent / said
    if beside.is_file() and is_file(str(beside)):
        return beside
    return Path(said) if is_file(said) else None


def _names(document: Document) -> list[str]:
    """``names`` as listed or as a hostlist, or ``count`` of them by the pattern ``name``."""
    if at(document, ("hosts", "names")) is not None:
        for key in _COUNTED:
            if at(document, ("hosts", key)) is not None:
                raise UsageError(
                    f"names and {key}",
                    where=document.where("hosts", key),
                    expected="either names, or count with name and start",
                )
        return _listed(document)
    count = whole(document, ("hosts", "count"), default=1)
    limit(count, MAX_DEVICES, "hosts", document)
    pattern = text(document, ("hosts", "name"), default="n{i}")
    need_number(pattern, count, where=document.where("hosts", "name"))
    start = at(document, ("hosts", "start"))
    if start is None:
        start = 0
    if isinstance(start, bool) or not isinstance(start, int) or not 0 <= start <= MAX_DEVICES:
        raise UsageError(
            short(start),
            where=document.where("hosts", "start"),
            expected=f"the first host's number, 0 to {MAX_DEVICES}",
        )
    return [with_number(pattern, start + i) for i in range(count)]


def _listed(document: Document) -> list[str]:
    """Names one by one, or as Slurm writes them: ``node[001-016]``."""
    path = ("hosts", "names")
    said = at(document, path)
    if isinstance(said, str):
        names = expand_hostlist(said, where=document.where(*path), limit=MAX_DEVICES)
    else:
        names = []
        for i in range(len(sequence(document, path))):
            one = text(document, (*path, i))
            where = document.where(*path, i)
            names += expand_hostlist(one, where=where, limit=MAX_DEVICES) if "[" in one else [one]
    if not names:
        raise UsageError("no names", where=document.where(*path), expected="hosts' names")
    limit(len(names), MAX_DEVICES, "hosts", document)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise UsageError(
            f"host {name!r} {times} times", where=document.where(*path), expected="each name once"
        )
    return names


def _like(document: Document, build: Build, depth: int) -> Hosts:
    """The kinds of link and one host of the design or file that ``like`` names; nothing without it."""
    where = document.where("hosts", "like")
    name = text(document, ("hosts", "like"), default="")
    if not name:
        if at(document, ("hosts", "without")) is not None:
            raise UsageError(
                "without, but like nothing",
                where=document.where("hosts", "without"),
                expected="like: the design that has these parts",
            )
        return Hosts({}, [], [], [])
    if depth >= _MAX_LIKE:
        raise UsageError("designs that take their hosts from each other in a circle", where=where)
    path = like_file(document)
    if path is None:
        shown = shipped_design("design", name, where=where)
        other = read_yaml(read_design(shown), file=shown.name)
        found = hosts_of(other, build, depth=depth + 1)
    else:
        found = _of_file(path, build, depth)
    if not found.devices:
        raise UsageError(f"{name} has no hosts", where=where)
    return _without(document, found)


def _of_file(path: Path, build: Build, depth: int) -> Hosts:
    """A host of one's own file: a design with ``hosts``, or what `topo import` and `topo discover` write."""
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            "no YAML",
            where=str(path),
            expected="a design, or an import",
            fix=f"clusterlab topo import {path} -o node.yaml, then like: node.yaml",
        )
    other = read_yaml(read_design(path), file=str(path))
    if at(other, ("base",)) is not None:
        raise UsageError(
            "a fabric with failures", where=str(path), expected="a whole one: its base"
        )
    found = hosts_of(other, build, depth=depth + 1)
    devices, links = _one_host(build(path, depth + 1), str(path))
    return replace(found, devices=devices, links=links, files=(path, *found.files))


def _one_host(fabric: Fabric, where: str) -> tuple[list[Device], list[Link]]:
    """What is on one of a fabric's equal hosts, under local names; on its only one where none are equal.

    One host stands for many: what names a single piece of hardware is left out.
    """
    equal = max(fabric.equal_hosts, key=lambda group: len(group.hosts), default=None)
    if equal is None and len(fabric.hosts) != 1:
        raise UsageError(
            f"{len(fabric.hosts)} hosts, none like another" if fabric.hosts else "no hosts",
            where=where,
            expected="a file of one host, or of equal hosts",
        )
    host = fabric.hosts[0] if equal is None else equal.hosts[0]
    inside = {
        d.name: replace(d, name=d.name.removeprefix(f"{host}/"), host="", guid=None, listed_as=None)
        for d in fabric.on_host(host)
        if d.kind != "host"
    }
    links = [
        replace(k, src=inside[k.src].name, dst=inside[k.dst].name, ports=())
        for name in inside
        for k in fabric.links_from(name)
        if k.dst in inside
    ]
    return list(inside.values()), links


def _without(document: Document, found: Hosts) -> Hosts:
    """``found`` less the devices (``storage*``) and connections (``gpu*/cpu*``) that ``without`` names."""
    names = [d.name for d in found.devices]
    gone: set[str] = set()
    cut: set[tuple[str, str]] = set()
    for i in range(len(sequence(document, ("hosts", "without")))):
        path = ("hosts", "without", i)
        where = document.where(*path)
        a, slash, b = text(document, path).partition("/")
        if not slash:
            gone |= {name for name, _ in numbered(names, a, where)}
            continue
        pairs = set(connect(names, a, b, where_from=where, where_to=where))
        pairs |= {(dst, src) for src, dst in pairs}
        there = {(k.src, k.dst) for k in found.links} & pairs
        if not there:
            raise UsageError(
                f"no link between {a!r} and {b!r}",
                where=where,
                expected="devices that are joined, as in gpu*/cpu*",
            )
        cut |= there
    return replace(
        found,
        devices=[d for d in found.devices if d.name not in gone],
        links=[k for k in found.links if not {k.src, k.dst} & gone and (k.src, k.dst) not in cut],
    )
