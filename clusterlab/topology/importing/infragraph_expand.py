"""InfraGraph's templates and instances, expanded into single devices and cables. Bounded.

A template is expanded once into a ``Blueprint`` and stamped for each instance. The parts of a host become
devices; a switch or NIC becomes one device with all its parts; ports, slots and transceivers pass links on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.formats.infragraph_model import (
    Component,
    Edge,
    EdgeEnd,
    Infrastructure,
    Instance,
    LinkType,
    Template,
)
from clusterlab.topology.importing.infragraph_blueprint import (
    Blueprint,
    Cable,
    Expanded,
    Notes,
    Part,
    Used,
    nested_parts,
    pairs,
    unpacked,
    used_components,
    used_instances,
)
from clusterlab.topology.importing.infragraph_roles import (
    has_gpu,
    role_by_name,
    template_role,
)

MAX_PARTS = 400_000
MAX_CABLES = 2_000_000
_MAX_NESTING = 8


class Expansion:
    """Expands one file. Raises UsageError for what is absurdly large or nested in itself."""

    def __init__(self, source: Infrastructure, file: str) -> None:
        self.source = source
        self.file = file
        self.notes = Notes()
        self.templates = {t.name: unpacked(t) for t in source.templates}
        self.composed = {
            c.name for t in source.templates for c in t.components if c.name in self.templates
        }
        self.gpu_holders = self._holders()
        self.blueprints: dict[str, Blueprint] = {}
        self.cable_count = 0

    def run(self) -> Expanded:
        """The whole file."""
        used = used_instances(e for edge in self.source.edges for e in (edge.a, edge.b))
        declared = list(self.source.instances)
        known = {i.name for i in declared}
        declared += [
            self._undeclared(name, used[name].components) for name in used if name not in known
        ]
        if not declared:
            self.notes.only_templates = True
            names = [t.name for t in self.source.templates if t.name not in self.composed]
            names = names or [t.name for t in self.source.templates]
            declared = [Instance(name, name, 1) for name in names]
        stamped = [self._instance(i, used.get(i.name)) for i in declared]
        total = sum((i.count or 0) * len(b.parts) for i, b in stamped)
        self._limit(total, MAX_PARTS, "components")
        inner = sum((i.count or 0) * len(b.cables) for i, b in stamped)
        self._limit(inner, MAX_CABLES, "edges")
        self.cable_count = inner
        by_name = {i.name: (i, b) for i, b in stamped}
        links = {link.name: link for link in self.source.links}
        cables = [c for edge in self.source.edges for c in self._between(edge, by_name, links)]
        return Expanded(tuple(stamped), tuple(cables), self.notes)

    def _holders(self) -> set[str]:
        """Templates with GPUs, their own or in a nested device."""
        holders = {t.name for t in self.source.templates if has_gpu(t)}
        for _ in range(_MAX_NESTING):
            holders |= {
                t.name
                for t in self.source.templates
                if any(c.choice == "device" and c.name in holders for c in t.components)
            }
        return holders

    def _limit(self, count: int, most: int, what: str) -> None:
        if count > most:
            raise UsageError(f"{count} {what}", where=self.file, expected=f"at most {most}")

    def _undeclared(self, name: str, components: Mapping[str, int]) -> Instance:
        """An instance that edges name and nothing declares: of the one template that fits, if any."""
        self.notes.undeclared.append(name)
        instantiated = {i.device for i in self.source.instances}
        fitting = [
            t.name
            for t in self.source.templates
            if t.name not in instantiated and set(components) <= {c.name for c in t.components}
        ]
        return Instance(name, fitting[0] if len(fitting) == 1 else name, None)

    def _instance(self, instance: Instance, used: Used | None) -> tuple[Instance, Blueprint]:
        count = instance.count
        if count is None:
            count = used.most + 1 if used else 1
            self.notes.inferred.append(f"{instance.name}: {count}")
        return (
            Instance(instance.name, instance.device, count),
            self._blueprint_of(instance, used.components if used else {}),
        )

    def _blueprint_of(self, instance: Instance, used: Mapping[str, int]) -> Blueprint:
        template = self.templates.get(instance.device)
        if template is not None:
            return self._blueprint(template, used)
        self.notes.undefined.append(f"{instance.name} ({instance.device})")
        self._limit(sum(most + 1 for most in used.values()), MAX_PARTS, "components")
        parts = {
            f"{name}.{i}": Part(f"{name}.{i}", Component(name, "custom"))
            for name, most in used.items()
            for i in range(most + 1)
        }
        counts = {name: most + 1 for name, most in used.items()}
        return Blueprint(role_by_name(instance.name, instance.device), parts, (), counts)

    def _blueprint(self, template: Template, used: Mapping[str, int], depth: int = 0) -> Blueprint:
        if depth > _MAX_NESTING:
            raise UsageError(
                f"device {template.name!r} nested too deeply, or in itself",
                where=self.file,
                expected=f"{_MAX_NESTING} levels",
            )
        known = self.blueprints.get(template.name)
        if known is not None:
            return known
        counts = self._counts(template, used)
        role = template_role(template, self.composed, self.gpu_holders)
        parts: dict[str, Part] = {}
        cables: list[Cable] = []
        for component in template.components:
            self._limit(len(parts) + counts[component.name], MAX_PARTS, "components")
            nested = self.templates.get(component.name) if component.choice == "device" else None
            inner = self._blueprint(nested, {}, depth + 1) if nested else None
            for i in range(counts[component.name]):
                path = f"{component.name}.{i}"
                if inner is None:
                    parts[path] = Part(path, component)
                    continue
                self._limit(len(parts) + len(inner.parts), MAX_PARTS, "components")
                parts |= nested_parts(path, inner)
                cables += [Cable(f"{path}.{c.a}", f"{path}.{c.b}", c.link) for c in inner.cables]
        links = {link.name: link for link in template.links}
        for edge in template.edges:
            ends = [self._paths(end, counts, edge) for end in (edge.a, edge.b)]
            cables += self._cables(edge, ends[0], ends[1], links)
        inside = tuple(c for c in cables if c.a in parts and c.b in parts)
        blueprint = Blueprint(role, parts, inside, counts)
        self.blueprints[template.name] = blueprint
        return blueprint

    def _counts(self, template: Template, used: Mapping[str, int]) -> dict[str, int]:
        """Components of each name: as written, else as many as edges name."""
        inner = used_components(e for edge in template.edges for e in (edge.a, edge.b))
        counts = {}
        for c in template.components:
            if c.count is None:
                most = max(inner.get(c.name, 0), used.get(c.name, 0))
                counts[c.name] = most + 1
                self.notes.inferred.append(f"{template.name}.{c.name}: {most + 1}")
            else:
                counts[c.name] = c.count
        return counts

    def _paths(self, end: EdgeEnd, counts: Mapping[str, int], edge: Edge) -> list[str]:
        """Every path an end stands for."""
        paths = [""]
        here_counts = counts
        for part in end.path:
            count = here_counts.get(part.name)
            if count is None:
                self.notes.beyond.append(f"{edge.where}: no component {part.name}")
                return []
            chosen = part.indices(count)
            if part.exceeds(count):
                self.notes.beyond.append(f"{edge.where}: {part.name} has {count}")
            self._limit(len(paths) * len(chosen), MAX_CABLES, "ends of edges")
            paths = [f"{p}{'.' if p else ''}{part.name}.{i}" for p in paths for i in chosen]
            here = self.templates.get(part.name)
            if here is not None and part is not end.path[-1]:
                here_counts = {c.name: 1 if c.count is None else c.count for c in here.components}
        return paths

    def _cables(
        self, edge: Edge, a: Sequence[str], b: Sequence[str], links: Mapping[str, LinkType]
    ) -> Iterator[Cable]:
        link = links.get(edge.link)
        if link is None:
            self.notes.unknown_links.add(edge.link)
            link = LinkType(edge.link)
        expected = len(a) * len(b) if edge.scheme == "many2many" else len(a) + len(b)
        self._limit(self.cable_count + expected, MAX_CABLES, "edges")
        if edge.scheme == "one2one" and len(a) != len(b):
            self.notes.unequal.append(f"{edge.where}: {len(a)} to {len(b)} one by one")
        seen: set[tuple[str, str]] = set()
        for x, y in pairs(edge, a, b):
            if x != y and (x, y) not in seen and (y, x) not in seen:
                seen.add((x, y))
                self.cable_count += 1
                yield Cable(x, y, link)

    def _between(
        self,
        edge: Edge,
        instances: Mapping[str, tuple[Instance, Blueprint]],
        links: Mapping[str, LinkType],
    ) -> Iterator[Cable]:
        ends = [list(self._ends(end, instances, edge)) for end in (edge.a, edge.b)]
        return self._cables(edge, ends[0], ends[1], links)

    def _ends(
        self, end: EdgeEnd, instances: Mapping[str, tuple[Instance, Blueprint]], edge: Edge
    ) -> Iterator[str]:
        if end.instance is None or end.instance.name not in instances:
            return
        instance, blueprint = instances[end.instance.name]
        count = instance.count or 0
        known = [p for p in self._paths(end, blueprint.counts, edge) if p in blueprint.parts]
        chosen = end.instance.indices(count)
        if end.instance.exceeds(count):
            self.notes.beyond.append(f"{edge.where}: {instance.name} has {count}")
        self._limit(self.cable_count + len(chosen) * len(known), MAX_CABLES, "ends of edges")
        for i in chosen:
            yield from (f"{instance.name}.{i}.{path}" for path in known)
