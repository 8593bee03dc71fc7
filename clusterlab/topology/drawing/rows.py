"""What the panels of a large network share: rows of boxes, folds of equal ones, lines between. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from clusterlab.topology.drawing.bundles import Bundle, usual_text
from clusterlab.topology.drawing.groups import Groups, SpineGroup, grouped
from clusterlab.topology.drawing.marks import SMALL_PX, Box, Stroke, fitted
from clusterlab.topology.drawing.style import rail_css
from clusterlab.topology.drawing.tiers import (
    Layers,
    boxed,
    bundle_fault,
    bundle_stroke,
    captioned,
    first_fitting,
    missing_stroke,
    missing_text,
)
from clusterlab.topology.drawing.wiring_faults import wiring_faults
from clusterlab.topology.drawing.words import plural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.parts import Device

MAX_BOXES = 16
"""In a row; more are folded."""

WIDTH = 1400.0
LABELS = 164.0
TIER = 150.0
SPINE_HEIGHT = 58.0
_WIDEST = 240.0
_GAP = 10.0


@dataclass(frozen=True)
class Fold:
    """``members`` drawn as one box; ``key`` is the box's name in bundles."""

    key: str
    members: tuple[str, ...]


def folded(names: Sequence[str], alike: Callable[[str], Hashable], *, most: int) -> list[Fold]:
    """Boxes for ``names``: each alone where they fit, else equal ones together (``alike`` says which are)."""
    if len(names) <= most:
        return [Fold(name, (name,)) for name in names]
    groups: dict[Hashable, list[str]] = {}
    for name in names:
        groups.setdefault(alike(name), []).append(name)
    found = [Fold(members[0], tuple(members)) for members in groups.values()]
    if len(found) <= most:
        return found
    rest = tuple(name for fold in found[most - 1 :] for name in fold.members)
    return [*found[: most - 1], Fold(rest[0], rest)]


def fault_counts(fabric: Fabric, groups: Groups) -> Counter[str]:
    """How many faults each unit, spine group and pod has, by its name; kept in the fabric's memo."""
    counts: Counter[str] | None = fabric.memo.get("fault_counts")
    if counts is None:
        counts = fabric.memo["fault_counts"] = _fault_counts(fabric, groups)
    return counts


def _fault_counts(fabric: Fabric, groups: Groups) -> Counter[str]:
    faults = find_faults(fabric)
    counts: Counter[str] = Counter()
    pod_of = {unit.name: pod.name for pod in groups.pods for unit in pod.units}
    pod_of |= {group.name: pod.name for pod in groups.pods for group in pod.spines}

    def named(host_or_switch: str) -> str | None:
        group = groups.group_of.get(host_or_switch)
        return None if group is None else group.removesuffix(" hosts")

    def owner(device: str) -> str | None:
        return named(fabric.host_of(device) or device)

    concerned: list[set[str | None]] = [
        *({named(host)} for host in faults.hosts),
        *({owner(d.name)} for d in faults.devices),
        *({owner(c.a), owner(c.b)} for c in faults.connections),
    ]
    wiring = wiring_faults(fabric)
    concerned += [{named(host), named(leaf)} for host, leaf in sorted(wiring.crossed)]
    concerned += [{named(missing.siblings[0])} for missing in wiring.missing]
    concerned += [{named(switch)} for switch in wiring.shortages]
    for owners in concerned:
        for name in owners:
            if name:
                counts[name] += 1
        for pod in {pod_of[name] for name in owners if name in pod_of}:
            counts[pod] += 1
    return counts


class Rows:
    """Rows of boxes right of the captions."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.groups = grouped(fabric)
        self.faults = fault_counts(fabric, self.groups)
        self.down = {d.name for d in find_faults(fabric).devices}
        self.layers = Layers()
        self.width = WIDTH
        self.lost: Counter[tuple[str, str]] = Counter()

    def places(self, count: int, *, widest: float = _WIDEST) -> list[tuple[float, float]]:
        """(x, width) of ``count`` boxes spread over the row."""
        room = (self.width - LABELS) / count
        width = min(widest, room - _GAP)
        return [(LABELS + (i + 0.5) * room - width / 2, width) for i in range(count)]

    def joined(
        self,
        found: Iterable[Bundle],
        lower: dict[str, tuple[float, float]],
        upper: dict[str, tuple[float, float]],
        caption_y: float,
    ) -> float:
        """Lines from each lower box's top to each upper box's bottom; the caption says what one is.

        Gives where the caption ends.
        """
        drawn = [b for b in found if b.low in lower and b.high in upper]
        for b in sorted(drawn, key=lambda b: b.bad > 0):
            (x1, y1), (x2, y2) = lower[b.low], upper[b.high]
            self.layers.lines.append(bundle_stroke(b, x1, y1, x2, y2))
            if b.bad:
                bundle_fault(self.layers, b, x1 + (x2 - x1) * 0.2, y1 + (y2 - y1) * 0.2)
            elif lost := self.lost[b.low, b.high]:
                at = x1 + (x2 - x1) * 0.2, y1 + (y2 - y1) * 0.2
                text = f"{plural(lost, 'cable')} missing"
                self.layers.faults.append(missing_stroke(x1, y1, x2, y2, text))
                self.layers.faults.append(missing_text(*at, text))
        return captioned(self.layers, usual_text(drawn), 0, caption_y, LABELS - 14)

    def spine_row(
        self, folds: Sequence[Fold], of: dict[str, SpineGroup], y: float
    ) -> dict[str, tuple[float, float]]:
        """A box for each spine (or core) group; gives where lines from below arrive."""
        place = {}
        for fold, (x, width) in zip(folds, self.places(len(folds)), strict=True):
            members = [of[name] for name in fold.members]
            switches = [d for group in members for d in group.switches]
            gone = [d.name for d in switches if d.name in self.down]
            words = [
                (fitted(_count_text(switches, len(fold.members)), width - 6), "label bold"),
                (first_fitting(_range_texts(switches), width - 6), "soft"),
                (first_fitting(_position(members), width - 6), "soft"),
            ]
            if gone:
                words[2] = (fitted(f"down: {', '.join(gone)}", width - 6, SMALL_PX), "bad bold")
            box = Box(x, y, width, SPINE_HEIGHT, "switch", ", ".join(d.name for d in switches[:40]))
            boxed(self.layers, box, [w for w in words if w[0]], down=bool(gone))
            rail = members[0].rail if len(members) == 1 else None
            if rail is not None:
                foot = y + SPINE_HEIGHT - 2
                self.layers.boxes.append(Stroke(x, foot, x + width, foot, rail_css(rail), 3))
            place[fold.key] = (x + width / 2, y + SPINE_HEIGHT)
        return place


def _count_text(switches: Sequence[Device], groups: int) -> str:
    text = plural(len(switches), switches[0].kind)
    return text if groups == 1 else f"{text} in {groups} groups"


def _range_texts(switches: Sequence[Device]) -> list[str]:
    if len(switches) == 1:
        return [switches[0].name]
    return [f"{switches[0].name} … {switches[-1].name}", switches[0].model or ""]


def _position(groups: Sequence[SpineGroup]) -> list[str]:
    rails = {group.rail for group in groups}
    planes = {group.plane for group in groups}
    words = []
    if len(rails) == 1 and (rail := next(iter(rails))) is not None:
        words.append(f"rail {rail}")
    if len(planes) == 1 and (plane := next(iter(planes))) is not None:
        words.append(f"plane {plane}")
    return [" · ".join(words), *words]


def named(members: Sequence[str]) -> str:
    return members[0] if len(members) == 1 else f"{members[0]} … {members[-1]}"
