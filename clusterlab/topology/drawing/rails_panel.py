"""Hosts one by one under their switches: one line across for each leaf, a dot where a host taps it.

So the 256 cables of an SU are 8 lines. For a whole small network, or one unit of a large one. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.order import natural
from clusterlab.topology.drawing.bundles import bundles, links_of, tier_links, usual_text
from clusterlab.topology.drawing.groups import Unit
from clusterlab.topology.drawing.marks import (
    LINE_PX,
    SMALL_PX,
    Box,
    Dot,
    Panel,
    Stroke,
    Text,
    fitted,
    text_width,
)
from clusterlab.topology.drawing.style import rail_css, rail_dash
from clusterlab.topology.drawing.tiers import (
    Layers,
    about,
    boxed,
    bundle_fault,
    bundle_stroke,
    captioned,
    first_fitting,
    missing_stroke,
    missing_text,
    place_texts,
)
from clusterlab.topology.drawing.wiring_faults import wiring_faults
from clusterlab.topology.drawing.words import common_prefix, plural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.host_groups import is_host_group
from clusterlab.topology.parts import Device, DeviceKind
from clusterlab.topology.shapes import host_shapes

MAX_COLUMNS = 72
MAX_LEAVES = 18
MAX_ABOVE = 18
"""Switches of a tier above the leaves."""

_WIDTH = 1380.0
_LABELS = 164.0  # left of the leaves' lines
_BUS_STEP = 18.0
_SWITCH_HEIGHT = 38.0
_TIER = 118.0
_ENDS: tuple[DeviceKind, ...] = ("external", "nic", "gpu", "host")


@dataclass(frozen=True)
class Part:
    """What is drawn: hosts, what else hangs on leaves, and switches by tier from the top."""

    hosts: tuple[str, ...]
    others: tuple[Device, ...]
    tiers: tuple[tuple[Device, ...], ...]
    scale_up: tuple[Device, ...]

    @property
    def leaves(self) -> tuple[Device, ...]:
        """The lowest tier; none where there are no switches."""
        return self.tiers[-1] if self.tiers else ()


def whole(fabric: Fabric) -> Part:
    """All of a fabric."""
    outside = fabric.network_devices
    kinds: tuple[DeviceKind, ...] = ("core", "spine", "leaf")
    tiers = (tuple(d for d in outside if d.kind == kind) for kind in kinds)
    return Part(
        hosts=fabric.hosts,
        others=tuple(
            d
            for d in outside
            if d.kind in _ENDS and d.role != "aggregation" and not is_host_group(d)
        ),
        tiers=tuple(tier for tier in tiers if tier),
        scale_up=tuple(d for d in outside if d.kind == "nvswitch"),
    )


def of_unit(unit: Unit) -> Part:
    """One unit of a large fabric: its hosts and leaves."""
    tiers = (unit.leaves,) if unit.leaves else ()
    return Part(hosts=unit.hosts, others=(), tiers=tiers, scale_up=unit.scale_up)


def fits(part: Part) -> bool:
    """Whether everything in it can be drawn one by one, and there is a network to draw."""
    return (
        0 < len(part.hosts) + len(part.others) <= MAX_COLUMNS
        and len(part.leaves) <= MAX_LEAVES
        and all(len(tier) <= MAX_ABOVE for tier in part.tiers)
        and bool(part.tiers or part.scale_up or len(part.hosts) > 1)
    )


def rails_panel(fabric: Fabric, part: Part) -> Panel:
    """``part`` drawn; it must fit (``fits``)."""
    return _Drawing(fabric, part).draw()


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    words: str


class _Drawing:
    """Positions of tiers, lines and columns."""

    def __init__(self, fabric: Fabric, part: Part) -> None:
        self.fabric, self.part = fabric, part
        faults = find_faults(fabric)
        self.down = {d.name for d in faults.devices} | set(faults.hosts)
        self.wiring = wiring_faults(fabric)
        self.columns = self._columns()
        self.labels = _LABELS if part.leaves else 0.0
        room = (_WIDTH - self.labels) / len(self.columns)
        self.step = min(120.0, max(18.0, room))
        self.width = max(self.labels + self.step * len(self.columns), 480.0)
        self.layers = Layers()
        inside = {
            d.name: column.name
            for column in self.columns
            if column.name in set(fabric.hosts)
            for d in fabric.on_host(column.name)
        }
        others = {d.name: d.name for tier in (*part.tiers, part.others) for d in tier}
        scale_up = {d.name: "NVSwitches" for d in part.scale_up}
        switches = {d.name for tier in (*part.tiers, part.scale_up) for d in tier}
        links = links_of(fabric, switches) if switches else tier_links(fabric)
        self.found = bundles(links, inside | others | scale_up)

    def _columns(self) -> list[_Column]:
        gpus = {
            host: sum(d.kind == "gpu" for d in shape.devices)
            for shape in host_shapes(self.fabric)
            for host in shape.hosts
        }
        hosts = [
            _Column(host, plural(gpus[host], "GPU") if gpus[host] else "")
            for host in self.part.hosts
        ]
        return hosts + [_Column(d.name, d.role or "") for d in self.part.others]

    def draw(self) -> Panel:
        """Tiers from the top, then the leaves' lines, hosts, and NVSwitches outside them."""
        y = 2.0
        above: dict[str, tuple[float, float]] = {}
        for tier in self.part.tiers:
            place = self.tier(tier, y)
            self.between(place, above)
            above = place
            y += _SWITCH_HEIGHT if tier is self.part.leaves else _TIER
        bus = self.buses(above, y)
        absent = sum(m.beside(bus) for m in self.wiring.missing)
        y = max([y, *bus.values()]) + (30 + absent * _BUS_STEP if bus else 0)
        y = self.hosts(bus, y)
        y = self.scale_up_row(y)
        return Panel(self.width, y, self.layers.marks())

    def x(self, column: int) -> float:
        return self.labels + (column + 0.5) * self.step

    def tier(self, switches: Sequence[Device], y: float) -> dict[str, tuple[float, float]]:
        """A row of switches spread over the columns."""
        room = (self.width - self.labels) / len(switches)
        width = min(130.0, room - 6)
        place = {}
        for i, d in enumerate(switches):
            x = self.labels + (i + 0.5) * room
            lines = [
                (fitted(d.name, width - 4, SMALL_PX), "label"),
                (first_fitting(place_texts(d), width - 4), "soft"),
            ]
            shortage = self.wiring.shortages.get(d.name)
            if shortage is not None:
                counts = f"{shortage.found} of {shortage.expected}"
                texts = [f"{counts} uplinks", f"{counts} up", counts]
                lines[1] = (first_fitting(texts, width - 4), "bad bold")
            box = Box(x - width / 2, y, width, _SWITCH_HEIGHT, "switch", about(d))
            boxed(self.layers, box, lines, down=d.name in self.down)
            place[d.name] = (x, y)
        return place

    def between(
        self, lower: dict[str, tuple[float, float]], upper: dict[str, tuple[float, float]]
    ) -> None:
        """The lines from one tier to the tier above, and what they stand for."""
        found = [b for b in self.found.values() if b.low in lower and b.high in upper]
        for b in sorted(found, key=lambda b: b.bad > 0):
            (x1, y1), (x2, y2) = lower[b.low], upper[b.high]
            y2 += _SWITCH_HEIGHT
            self.layers.lines.append(bundle_stroke(b, x1, y1, x2, y2))
            if b.bad and not {b.low, b.high} & self.down:
                bundle_fault(self.layers, b, x1 + (x2 - x1) * 0.3, y1 + (y2 - y1) * 0.3)
        for low, (x1, y1) in lower.items():
            for high, (x2, y2) in upper.items():
                if (count := self.wiring.lost(low, high)) is not None:
                    text = f"{count[0]} of {count[1]}"
                    foot = y2 + _SWITCH_HEIGHT
                    self.layers.faults.append(missing_stroke(x1, y1, x2, foot, text))
                    at = x1 + (x2 - x1) * 0.25, y1 + (foot - y1) * 0.25
                    self.layers.faults.append(missing_text(*at, text))
        if found:
            y = next(iter(upper.values()))[1] + _TIER / 2 + 10
            captioned(self.layers, usual_text(found), 0, y, self.labels - 14)

    def buses(self, leaves: dict[str, tuple[float, float]], y: float) -> dict[str, float]:
        """One line across for each leaf, with the leaf's name, and the drop from the leaf to it."""
        right = self.labels + self.step * len(self.columns)
        bus: dict[str, float] = {}
        for i, leaf in enumerate(self.part.leaves):
            at = y + 22 + i * _BUS_STEP
            # Where no host's line runs: between two columns.
            x = leaves[leaf.name][0]
            x = self.labels + round((x - self.labels) / self.step) * self.step
            css, dash = rail_css(leaf.rail), rail_dash(leaf.rail)
            if leaf.name in self.down:
                css, dash = "fault", "5 3"
            self.layers.lines.append(Stroke(x, y, x, at, css, 2))
            across = Stroke(self.labels - 6, at, max(right, x), at, css, 2, dash, leaf.name)
            self.layers.lines.append(across)
            self.layers.lines.append(Dot(x, at, 3.5, css))
            words = [f"{leaf.name} · {text}" for text in place_texts(leaf) if text != leaf.kind]
            name = first_fitting([*words, leaf.name], self.labels - 14)
            name = name or fitted(leaf.name, self.labels - 14, SMALL_PX)
            label = Text(self.labels - 12, at + 4, name, "label", "end", SMALL_PX)
            self.layers.boxes.append(label)
            bus[leaf.name] = at
        own = [leaf.name for leaf in self.part.leaves]
        missing = [m for m in self.wiring.missing if m.beside(own)]
        for i, leaf_gone in enumerate(missing, len(own)):
            at = y + 22 + i * _BUS_STEP
            self.layers.lines.append(
                Stroke(self.labels - 6, at, right, at, "fault", 1.4, "2 4", leaf_gone.text)
            )
            name = first_fitting(
                [leaf_gone.text, f"no leaf of rail {leaf_gone.rail}"], self.labels - 14
            )
            self.layers.boxes.append(
                Text(self.labels - 12, at + 4, name, "bad bold", "end", SMALL_PX)
            )
        return bus

    def hosts(self, bus: dict[str, float], y: float) -> float:
        """A box for each host, its line up, and a dot where it taps a leaf's line."""
        names = [c.name for c in self.columns]
        prefix = common_prefix(names)
        longest = max(text_width(n, SMALL_PX) for n in names)
        short = longest + 6 > self.step and len(prefix) > 1
        shown = [n.removeprefix(prefix) for n in names] if short else names
        longest = max(text_width(n, SMALL_PX) for n in shown)
        turned = longest + 4 > self.step
        roomy = self.step >= 60
        height = min(longest + 10, 130.0) if turned else (_SWITCH_HEIGHT if roomy else 24.0)
        for i, (column, name) in enumerate(zip(self.columns, shown, strict=True)):
            box = Box(self.x(i) - self.step / 2 + 2, y, self.step - 4, height, "host", column.name)
            lines = [] if turned else [(fitted(name, self.step - 5, SMALL_PX), "label")]
            if roomy and not turned and column.words:
                lines.append((fitted(column.words, self.step - 5, SMALL_PX), "soft"))
            boxed(self.layers, box, lines, down=column.name in self.down)
            if turned:
                text = fitted(name, height - 8, SMALL_PX)
                turned_text = Text(
                    self.x(i) + 4, y + height - 5, text, "label", "start", SMALL_PX, turned=True
                )
                self.layers.boxes.append(turned_text)
            self.taps(column, self.x(i), y, bus)
        common = Counter(c.words for c in self.columns if c.words).most_common(1)
        words = common[0][0] if common and not roomy else ""
        self.host_caption(y, prefix if short else "", words)
        return y + max(height, 3.0 * LINE_PX if self.labels else 0.0)

    def host_caption(self, y: float, prefix: str, words: str) -> None:
        """How many nodes, what their names begin with, and what a dot stands for."""
        leaves = {leaf.name for leaf in self.part.leaves}
        dots = usual_text(
            b for b in self.found.values() if b.high in leaves and b.low not in leaves
        )
        says = [plural(len(self.part.hosts), "node"), words, f"{prefix}…" if prefix else "", dots]
        text = " · ".join(filter(None, says))
        text = text.replace("each line:", "each dot:").replace(" line", " dot")
        captioned(self.layers, text, 0, y + 12, self.labels - 14)

    def taps(self, column: _Column, x: float, y: float, bus: dict[str, float]) -> None:
        """Where a host meets the leaves' lines."""
        met = [b for b in self.found.values() if b.low == column.name and b.high in bus]
        if met:
            top = min(bus[b.high] for b in met)
            self.layers.lines.append(Stroke(x, y, x, top, "wire", 1.2))
        for b in met:
            at = bus[b.high]
            rail = self.fabric.device(b.high).rail
            crossed = (b.low, b.high) in self.wiring.crossed
            css = "fault" if b.bad else "bad" if crossed else rail_css(rail)
            self.layers.boxes.append(Dot(x, at, 6.5 if crossed else 4.5, css))
            if crossed:
                self.layers.faults.append(Dot(x, at, 9.0, "fault"))
            if b.cables > 1 and self.step >= 56 and not b.bad:
                count = Text(x + 8, at - 3, f"x{b.cables}", "soft", "start", SMALL_PX)
                self.layers.boxes.append(count)
            if b.bad and not {b.low, b.high} & self.down:
                bundle_fault(self.layers, b, x, at)

    def scale_up_row(self, y: float) -> float:
        """The NVSwitches that stand outside the hosts, as one box under all of them."""
        switches = self.part.scale_up
        if not switches:
            return y
        top = y
        y += 40
        gone = sorted((d.name for d in switches if d.name in self.down), key=natural)
        met = [b for b in self.found.values() if "NVSwitches" in (b.low, b.high)]
        column = {c.name: i for i, c in enumerate(self.columns)}
        for b in met:
            x = self.x(column[b.low if b.high == "NVSwitches" else b.high])
            self.layers.lines.append(bundle_stroke(b, x, top - 16, x, y))
            if b.bad and not gone and not {b.low, b.high} & self.down:
                bundle_fault(self.layers, b, x, y - 12)
        width = self.step * len(self.columns)
        text = plural(len(switches), "NVSwitch")
        if len(switches) > 1:
            text += f" ({switches[0].name} … {switches[-1].name})"
        if gone:
            text += f" · {len(gone)} down: {', '.join(gone[:4])}{'…' if len(gone) > 4 else ''}"
        each = usual_text(met).replace("each line:", "each node:").replace("cable", "link")
        lines = [
            (fitted(text, width - 8, SMALL_PX), "bad bold" if gone else "label bold"),
            (fitted(each, width - 8, SMALL_PX), "soft"),
        ]
        boxed(self.layers, Box(self.labels, y, width, 40, "nvswitch"), lines, down=bool(gone))
        return y + 40
