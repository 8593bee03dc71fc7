"""What an expanded InfraGraph file consists of, and the small steps of expanding one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from clusterlab.formats.infragraph_model import (
    Component,
    Edge,
    EdgeEnd,
    Instance,
    LinkType,
    Template,
)
from clusterlab.topology.importing.infragraph_roles import DeviceRole


@dataclass(frozen=True, slots=True)
class Part:
    """One component, by its path in the device (``xpu.0``, ``cx5.1.port.0``).

    ``owner`` is the role of the nested device it is a part of and ``owner_path`` that device's path; for a
    component of the device itself both are empty.
    """

    path: str
    component: Component
    owner: DeviceRole | None = None
    owner_path: str = ""


@dataclass(frozen=True, slots=True)
class Cable:
    """One edge between two parts; in a stamped device names are ``instance.index.path``."""

    a: str
    b: str
    link: LinkType


@dataclass(frozen=True)
class Blueprint:
    """A template, expanded."""

    role: DeviceRole
    parts: dict[str, Part]
    cables: tuple[Cable, ...]
    counts: dict[str, int]


@dataclass
class Notes:
    """What the file left out and was filled in, for findings."""

    inferred: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)
    undeclared: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    unequal: list[str] = field(default_factory=list)
    unknown_links: set[str] = field(default_factory=set)
    only_templates: bool = False


@dataclass(frozen=True)
class Expanded:
    """All instances with their blueprints, and the cables between them."""

    instances: tuple[tuple[Instance, Blueprint], ...]
    cables: tuple[Cable, ...]
    notes: Notes


def unpacked(template: Template) -> Template:
    """Components nested in another stand for it: an edge to the package is one to its part of that type."""
    packages = {c.within for c in template.components if c.within is not None}
    if not packages:
        return template
    stands_for = {
        package.name: part.name
        for package in template.components
        for part in reversed(template.components)
        if package.name in packages
        and part.within == package.name
        and part.choice == package.choice
        and part.count == package.count
    }
    kept = tuple(
        c for c in template.components if c.name not in packages or c.name not in stands_for
    )

    def renamed(end: EdgeEnd) -> EdgeEnd:
        first = end.path[0]
        name = stands_for.get(first.name, first.name)
        return replace(end, path=(replace(first, name=name), *end.path[1:]))

    edges = tuple(replace(e, a=renamed(e.a), b=renamed(e.b)) for e in template.edges)
    return replace(template, components=kept, edges=edges)


@dataclass
class Used:
    """What edges name of one instance: its highest index, and each component's."""

    most: int = 0
    components: dict[str, int] = field(default_factory=dict)


def used_instances(ends: Iterable[EdgeEnd]) -> dict[str, Used]:
    """What edges between instances name, by instance."""
    found: dict[str, Used] = {}
    for end in ends:
        if end.instance is None:
            continue
        used = found.setdefault(end.instance.name, Used())
        used.most = max(used.most, end.instance.most)
        first = end.path[0]
        most = used.components.get(first.name, 0)
        used.components[first.name] = max(most, first.most)
    return found


def used_components(ends: Iterable[EdgeEnd]) -> dict[str, int]:
    """The highest index that edges inside a template name of each component."""
    found: dict[str, int] = {}
    for end in ends:
        first = end.path[0]
        found[first.name] = max(found.get(first.name, 0), first.most)
    return found


def nested_parts(path: str, inner: Blueprint) -> dict[str, Part]:
    """The parts of a device that stands at ``path`` in another; the innermost device owns them."""
    return {
        f"{path}.{name}": Part(
            f"{path}.{name}",
            part.component,
            part.owner or inner.role,
            f"{path}.{part.owner_path}".rstrip("."),
        )
        for name, part in inner.parts.items()
    }


def pairs(edge: Edge, a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of ends that an edge's scheme joins."""
    if edge.scheme == "many2many":
        yield from ((x, y) for x in a for y in b)
    elif edge.scheme == "one2one":
        yield from zip(a, b, strict=False)
    else:
        members = list(dict.fromkeys([*a, *b]))
        yield from zip(members, [*members[1:], *members[:1]], strict=True)
