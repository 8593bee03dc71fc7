"""One host: CPUs, PCI tree, GPUs, NICs, NVSwitches or the mesh between GPUs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from clusterlab.topology.drawing.host_words import (
    about_device,
    cell_name,
    cpu_words,
    link_classes,
    once,
    second_line,
    shorter,
)
from clusterlab.topology.drawing.marks import (
    LINE_PX,
    SMALL_PX,
    TEXT_PX,
    Box,
    Cross,
    Mark,
    Panel,
    Stroke,
    Text,
    fitted,
    moved,
    text_width,
)
from clusterlab.topology.drawing.mesh_panel import mesh_panel
from clusterlab.topology.drawing.pci_tree import ENDS, Tree, pci_tree
from clusterlab.topology.drawing.style import rail_css, rail_dash
from clusterlab.topology.drawing.tiers import first_fitting
from clusterlab.topology.drawing.words import CLASS_NAMES, GBps_text, plural
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.shapes import HostShape

MAX_WIDTH = 1500.0
_ROW = 62.0
_BOX_HEIGHT = 24.0
_END_HEIGHT = 38.0
_SWITCH_GAP = 96.0
_HEAD = 30.0
_MOST_JOINED = 12

_CSS = {"pcie_switch": "pcie", "host_bridge": "pcie", "external": "switch", "host": "host"}


def host_panel(shape: HostShape, title: str, *, outside: Sequence[str] = ()) -> Panel:
    """A host drawn with ``title`` above; ``outside`` are lines on what its GPUs reach beyond it."""
    tree = pci_tree(shape)
    drawing = _Drawing(shape, tree)
    marks: list[Mark] = [Text(0, 14, title, "label bold", "start", 14)]
    marks += drawing.draw(outside)
    return Panel(max(drawing.width, text_width(title, 14, bold=True)), drawing.bottom, tuple(marks))


class _Drawing:
    """Places in columns and rows to marks."""

    def __init__(self, shape: HostShape, tree: Tree) -> None:
        self.shape, self.tree = shape, tree
        self.kinds = {d.name: d.kind for d in shape.devices}
        names = [cell_name(cell) for cell in tree.cell.values() if cell[0].kind in ENDS]
        need = max([44.0, *(text_width(n, SMALL_PX) for n in names)]) + 12
        self.step = min(need + 6, MAX_WIDTH / max(1, tree.columns))
        self.box_width = self.step - 6
        self.width = max(self.step * tree.columns, 560.0)
        self.left = (self.width - self.step * tree.columns) / 2
        self.down = _down(shape)
        self.links = once(shape.links)
        self.lowest = max(tree.row.values(), default=0)
        self.bottom = 0.0

    def x(self, name: str) -> float:
        return self.left + (self.tree.column[name] + 0.5) * self.step

    def y(self, name: str) -> float:
        return _HEAD + self.tree.row[name] * _ROW

    def draw(self, outside: Sequence[str]) -> list[Mark]:
        """Lines first, boxes over them, crosses on top."""
        shown = [d for d in self.shape.devices if d.name in self.tree.column]
        boxes = [mark for d in shown for mark in self.device(d)]
        switches = [d for d in self.shape.devices if d.kind == "nvswitch"]
        y = _HEAD + self.lowest * _ROW + _END_HEIGHT
        lines, crosses = self.tree_lines()
        if switches:
            y += _SWITCH_GAP
            more_lines, more_boxes, more_crosses = self.switch_row(switches, y)
            lines, boxes, crosses = lines + more_lines, boxes + more_boxes, crosses + more_crosses
            y += _END_HEIGHT
            more_lines, depth = self.between_switches(switches, y)
            lines += more_lines
            y += depth
        marks: list[Mark] = [*lines, *boxes, *crosses]
        for i, line in enumerate(outside):
            marks.append(Text(self.width / 2, y + 22 + i * LINE_PX, line, "label"))
        y += LINE_PX * len(outside) + (10 if outside else 0)
        mesh = mesh_panel(self.shape, self.width, self.down)
        if mesh is not None:
            marks += [moved(mark, 0, y + 16) for mark in mesh.marks]
            y += mesh.height + 16
        legend = self.legend(y + 24)
        self.bottom = y + 24 + LINE_PX * (len(legend) // 2) - 8
        return [*marks, *legend]

    def device(self, d: Device) -> list[Mark]:
        """A device's box and words."""
        cell = self.tree.cell[d.name]
        x, y = self.x(d.name), self.y(d.name)
        first, last = self.tree.span[d.name]
        wide = d.kind == "cpu"
        width = (last - first + 1) * self.step - (34 if wide else 6)
        if not wide:
            width = min(width, max(self.box_width, text_width(d.name, SMALL_PX) + 10))
        if wide:
            x = self.left + ((first + last) / 2 + 0.5) * self.step
        height = _END_HEIGHT if d.kind in ENDS else _BOX_HEIGHT
        css = _CSS.get(d.kind, d.kind) + (" down" if d.name in self.down else "")
        words = [cell_name(cell), *second_line(d, cell)]
        if wide:
            words = [first_fitting(cpu_words(d), width - 6, TEXT_PX)]
        marks: list[Mark] = [Box(x - width / 2, y, width, height, css, about_device(d))]
        for i, line in enumerate(words):
            size = SMALL_PX if not wide else 12
            base = y + (16 if len(words) == 1 and height == _BOX_HEIGHT else 15 + i * 15)
            css = "label" if i == 0 else "soft"
            text = first_fitting(shorter(line), width - 4, size) or fitted(line, width - 4, size)
            marks.append(Text(x, base, text, css, "middle", size))
        if d.kind == "nic" and d.rail is not None and len(cell) == 1:
            foot = y + height - 1.5
            marks.append(
                Stroke(
                    x - width / 2, foot, x + width / 2, foot, rail_css(d.rail), 3, rail_dash(d.rail)
                )
            )
        return marks + _crossed(d.name in self.down, x + width / 2, y)

    def tree_lines(self) -> tuple[list[Mark], list[Mark]]:
        """PCIe, chip-to-chip and socket links between drawn devices, once for both directions."""
        lines: list[Mark] = []
        crosses: list[Mark] = []
        for link in self.links:
            if link.link_class in ("nvlink", "xgmi") or not {link.src, link.dst} <= set(
                self.tree.column
            ):
                continue
            upper, lower = sorted((link.src, link.dst), key=lambda name: self.tree.row[name])
            if self.tree.row[upper] == self.tree.row[lower]:
                lines += self.level_line(link, upper, lower)
                continue
            x1, y1 = self.x(upper), self.y(upper) + _BOX_HEIGHT
            x2, y2 = self.x(lower), self.y(lower)
            if self.kinds[upper] == "cpu":
                x1 = x2
            lines.append(_stroke(link, x1, y1, x2, y2))
            crosses += self.fault(link, (x1 + x2) / 2, (y1 + y2) / 2)
        return lines, crosses

    def level_line(self, link: Link, a: str, b: str) -> list[Mark]:
        """A link within a row: between neighbouring CPUs straight, else not drawn (the legend has it)."""
        (_, left_end), (right_start, _) = sorted((self.tree.span[a], self.tree.span[b]))
        if right_start - left_end != 1 or self.kinds[a] != "cpu":
            return []
        x = self.left + right_start * self.step
        y = self.y(a) + _BOX_HEIGHT / 2
        stroke = _stroke(link, x - 17, y, x + 17, y)
        return [stroke, *self.fault(link, x, y)]

    def switch_row(
        self, switches: Sequence[Device], y: float
    ) -> tuple[list[Mark], list[Mark], list[Mark]]:
        """NVSwitches spread under the GPUs, with their links."""
        each = self.width / len(switches)
        width = min(150.0, each - 8)
        lines: list[Mark] = []
        boxes: list[Mark] = []
        crosses: list[Mark] = []
        for i, switch in enumerate(switches):
            x = (i + 0.5) * each
            links = [
                k
                for k in self.links
                if switch.name in (k.src, k.dst) and "gpu" in (self.kinds[k.src], self.kinds[k.dst])
            ]
            for link in links:
                gpu = link.src if link.dst == switch.name else link.dst
                x1, y1 = self.x(gpu), self.y(gpu) + _END_HEIGHT
                lines.append(_stroke(link, x1, y1, x, y))
                crosses += self.fault(link, x1 + (x - x1) * 0.7, y1 + (y - y1) * 0.7)
            css = "nvswitch down" if switch.name in self.down else "nvswitch"
            boxes.append(Box(x - width / 2, y, width, _END_HEIGHT, css, about_device(switch)))
            each_gpu = sorted({k.multiplicity for k in links})
            words = (
                "/".join(map(str, each_gpu)) + (" link" if each_gpu == [1] else " links") + "/GPU"
            )
            for text, base, kind in ((switch.name, 15, "label"), (words, 30, "soft")):
                boxes.append(
                    Text(x, y + base, fitted(text, width - 4, SMALL_PX), kind, size=SMALL_PX)
                )
            crosses += _crossed(switch.name in self.down, x + width / 2, y)
        return lines, boxes, crosses

    def between_switches(self, switches: Sequence[Device], y: float) -> tuple[list[Mark], float]:
        """Links from NVSwitch to NVSwitch, as lines under their row, and how much room they take."""
        each = self.width / len(switches)
        place = {d.name: (i + 0.5) * each for i, d in enumerate(switches)}
        joined = [k for k in self.links if k.src in place and k.dst in place]
        lines: list[Mark] = []
        for i, link in enumerate(joined[:_MOST_JOINED]):
            depth = y + 8 + 7 * i
            a, b = place[link.src], place[link.dst]
            ends = ((a, y, a, depth), (a, depth, b, depth), (b, depth, b, y))
            lines += [_stroke(link, *end) for end in ends]
            lines += self.fault(link, (a + b) / 2, depth)
        if not joined:
            return [], 0.0
        counts = sorted({k.multiplicity for k in joined})
        text = (
            f"NVSwitch to NVSwitch: {plural(len(joined), 'pair')}, "
            f"{' or '.join(map(str, counts))} links each"
        )
        room = 8 + 7 * min(len(joined), _MOST_JOINED) + 14
        lines.append(Text(self.width / 2, y + room, text, "soft", size=SMALL_PX))
        return lines, room

    def fault(self, link: Link, x: float, y: float) -> list[Mark]:
        """The cross on a link that is down, the share left on one that is degraded."""
        if link.health == 1 or {link.src, link.dst} & self.down:
            return []
        if link.health == 0:
            return [Cross(x, y)]
        return [Text(x + 4, y + 4, f"{link.health:.0%}", "bad bold halo", "start", SMALL_PX)]

    def legend(self, y: float) -> list[Mark]:
        """One line for each class of link: how many, and what one carries."""
        marks: list[Mark] = []
        for i, (link_class, texts) in enumerate(link_classes(self.shape.links).items()):
            base = y + i * LINE_PX
            css = f"link-{link_class}"
            marks.append(Stroke(0, base - 4, 26, base - 4, css, _WIDTH.get(link_class, 1.5)))
            text = f"{CLASS_NAMES.get(link_class, link_class)}: {'; '.join(texts)}"
            marks.append(Text(34, base, fitted(text, self.width - 40), "label", "start"))
        return marks


_WIDTH = {"nvlink": 1.2, "xgmi": 1.2, "upi": 3.0, "c2c": 3.0}


def _stroke(link: Link, x1: float, y1: float, x2: float, y2: float) -> Stroke:
    hurt = link.health < 1
    rate = GBps_text(link.GBps)
    title = f"{link.src} – {link.dst}: {link.multiplicity} x {rate}" + (
        f", {link.health:.0%} left" if hurt else ""
    )
    return Stroke(
        *(x1, y1, x2, y2),
        css="fault" if hurt else f"link-{link.link_class}",
        width=2.5 if hurt else _WIDTH.get(link.link_class, 1.5),
        dash="5 3" if hurt else "",
        title=title,
    )


def _down(shape: HostShape) -> set[str]:
    """Devices of which every link in the host is down."""
    up = {end for k in shape.links if k.health > 0 for end in (k.src, k.dst)}
    linked = {end for k in shape.links for end in (k.src, k.dst)}
    single = Counter(end for k in once(shape.links) for end in (k.src, k.dst))
    gone = linked - up
    return {d for d in gone if single[d] > 1 or d.startswith("nic")} if gone != linked else gone


def _crossed(down: bool, x: float, y: float) -> list[Mark]:
    """The cross at a box's right upper corner."""
    return [Cross(x - 2, y + 2, 6.0)] if down else []
