"""One pod of a large network: spine groups over units of hosts with their leaves. Pure.

Equal healthy boxes are folded into one where there are many; what has a fault always stands alone.
"""

from __future__ import annotations

from collections.abc import Hashable

from clusterlab.topology.drawing.bundles import bundles, ranged, tier_links
from clusterlab.topology.drawing.groups import Groups, Pod, Unit, hosts_of
from clusterlab.topology.drawing.marks import (
    SMALL_PX,
    Box,
    Cross,
    Panel,
    Stroke,
    Text,
    wrapped,
)
from clusterlab.topology.drawing.rows import (
    LABELS,
    MAX_BOXES,
    SPINE_HEIGHT,
    TIER,
    Fold,
    Rows,
    folded,
    named,
)
from clusterlab.topology.drawing.style import rail_css
from clusterlab.topology.drawing.tiers import boxed, captioned, first_fitting
from clusterlab.topology.drawing.wiring_faults import wiring_faults
from clusterlab.topology.drawing.words import plural
from clusterlab.topology.fabric import Fabric


def pod_panel(fabric: Fabric, pod: Pod) -> Panel:
    """Spine groups over units, with what joins them."""
    return _PodDrawing(fabric, pod).draw()


class _PodDrawing(Rows):
    """One pod."""

    def __init__(self, fabric: Fabric, pod: Pod) -> None:
        super().__init__(fabric)
        self.pod = pod
        self.noun = pod.units[0].noun
        self.units = {unit.name: unit for unit in pod.units}
        self.spines = {group.name: group for group in pod.spines}
        links = tier_links(fabric)
        names = {*self.units, *self.spines, *map(hosts_of, pod.units)}
        group_of = _by_device(fabric, self.groups, names)
        self.single = bundles(links, group_of)
        self.unit_folds = folded(list(self.units), self.unit_alike, most=MAX_BOXES)
        self.spine_folds = folded(list(self.spines), self.spine_alike, most=MAX_BOXES)
        key = {m: f.key for f in (*self.unit_folds, *self.spine_folds) for m in f.members}
        self.found = bundles(links, {d: key[g] for d, g in group_of.items() if g in key})
        self.wiring = wiring_faults(fabric)
        for shortage in self.wiring.shortages.values():
            for short in shortage.short:
                ends = [key.get(group_of.get(name, "")) for name in (shortage.switch, short.upper)]
                if ends[0] and ends[1]:
                    self.lost[ends[0], ends[1]] += short.expected - short.found

    def unit_alike(self, name: str) -> Hashable:
        if self.faults[name]:
            return name
        unit = self.units[name]
        up = sorted((b.cables, b.rail is None) for b in self.single.values() if b.low == name)
        places = tuple((leaf.rail, leaf.plane) for leaf in unit.leaves)
        return len(unit.hosts), unit.gpus, places, tuple(up)

    def spine_alike(self, name: str) -> Hashable:
        group = self.spines[name]
        return name if self.faults[name] else (len(group.switches), group.plane)

    def draw(self) -> Panel:
        y = 2.0
        upper: dict[str, tuple[float, float]] = {}
        if self.spine_folds:
            upper = self.spine_row(self.spine_folds, self.spines, y)
            y += TIER
        lower, bottom = self.unit_row(y)
        said = 0.0
        if upper:
            said = self.joined(self.found.values(), lower, upper, 2.0 + SPINE_HEIGHT + 34)
        said = self.unit_caption(max(y + 20, said + 10))
        return Panel(self.width, max(bottom, said), self.layers.marks())

    def unit_caption(self, y: float) -> float:
        """What joins nodes and leaves within a unit; gives where the words end."""
        found = [
            b for unit in self.units.values() if (b := self.single.get((hosts_of(unit), unit.name)))
        ]
        says = f"nodes to leaves of a {self.noun}: {ranged(found)}" if found else ""
        return captioned(self.layers, says, 0, y, LABELS - 14)

    def unit_row(self, y: float) -> tuple[dict[str, tuple[float, float]], float]:
        """A box for each unit or fold of units; gives where its lines up begin, and the bottom."""
        place = {}
        drawn = []
        places = self.places(len(self.unit_folds), widest=320.0)
        for fold, (x, width) in zip(self.unit_folds, places, strict=True):
            lines = self.unit_lines(fold, width - 10)
            drawn.append((fold, x, width, lines))
            place[fold.key] = (x + width / 2, y)
        strips = any(has_strip(self.units[fold.key], width - 12) for fold, _, width, _ in drawn)
        head = 30 if strips else 4
        height = head + 12 + 15.0 * max(len(lines) for *_, lines in drawn)
        for fold, x, width, lines in drawn:
            down = any(self.faults[name] for name in fold.members)
            boxed(
                self.layers, Box(x, y, width, height, "frame", named(fold.members)), [], down=down
            )
            for i, (text, css) in enumerate(lines):
                at = y + head + 14 + 15 * i
                self.layers.boxes.append(_centred(x + width / 2, at, text, css))
            self.leaf_strip(self.units[fold.key], x + 6, y + 8, width - 12)
        return place, y + height

    def leaf_strip(self, unit: Unit, x: float, y: float, width: float) -> None:
        """A little box for each leaf, under its rail's colour."""
        if not has_strip(unit, width):
            return
        step = min(30.0, width / len(unit.leaves))
        start = x + (width - step * len(unit.leaves)) / 2
        for i, leaf in enumerate(unit.leaves):
            left = start + i * step
            gone = leaf.name in self.down
            text = "" if gone or leaf.rail is None else f"r{leaf.rail}"
            text = first_fitting([text], step - 10)
            shortage = self.wiring.shortages.get(leaf.name)
            css = "switch down" if gone or shortage else "switch"
            about = (
                f"{leaf.name}: {shortage.found} of {shortage.expected} uplinks" if shortage else ""
            )
            self.layers.boxes.append(Box(left, y, step - 2, 20, css, about or leaf.name))
            if text:
                self.layers.boxes.append(_centred(left + step / 2 - 1, y + 13, text, "soft"))
            if gone:
                self.layers.faults.append(Cross(left + step / 2 - 1, y + 10, 4))
            if leaf.rail is not None:
                foot = y + 19
                stroke = Stroke(left, foot, left + step - 2, foot, rail_css(leaf.rail), 3)
                self.layers.boxes.append(stroke)

    def unit_lines(self, fold: Fold, width: float) -> list[tuple[str, str]]:
        """What a unit's box says, wrapped to its width."""
        unit = self.units[fold.key]
        faults = sum(self.faults[name] for name in fold.members)
        name = (
            unit.name if len(fold.members) == 1 else f"{plural(len(fold.members), self.noun)}, each"
        )
        lines = [(name, "label bold")]
        if unit.leaves:
            lines.append((plural(len(unit.leaves), "leaf"), "label"))
        each, left = divmod(unit.gpus, len(unit.nodes) or 1)
        gpus = f" x {plural(each, 'GPU')}" if each and not left else ""
        lines.append((f"{plural(len(unit.nodes), 'node')}{gpus}", "label"))
        if len(fold.members) == 1 and len(unit.nodes) > 1:
            lines.append((f"{unit.nodes[0]} … {unit.nodes[-1]}", "soft"))
        if unit.others:
            lines.append((plural(len(unit.others), "other host"), "soft"))
        if unit.scale_up:
            lines.append((plural(len(unit.scale_up), "NVSwitch"), "label"))
        if faults:
            lines.append((plural(faults, "fault"), "bad bold"))
        own = [leaf.name for leaf in unit.leaves]
        if len(fold.members) == 1:
            lines += [(m.text, "bad") for m in self.wiring.missing if m.beside(own)]
        return [(piece, css) for text, css in lines for piece in wrapped(text, width, SMALL_PX)]


def has_strip(unit: Unit, width: float) -> bool:
    """Whether a little box for each leaf finds room in ``width``."""
    return 0 < len(unit.leaves) * 6 <= width


def _by_device(fabric: Fabric, groups: Groups, names: set[str]) -> dict[str, str]:
    """The group of every device that has a network link and whose group is in ``names``."""
    found: dict[str, str] = {}
    for link in fabric.network_links:
        for end in (link.src, link.dst):
            if end in found:
                continue
            group = groups.group_of.get(end)
            if group is None:
                host = fabric.host_of(end)
                group = None if host is None else groups.group_of.get(host)
            if group in names:
                found[end] = group
    return found


def _centred(x: float, y: float, text: str, css: str) -> Text:
    return Text(x, y, text, css, size=SMALL_PX)
