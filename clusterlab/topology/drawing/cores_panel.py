"""The top of a large network: cores over pods. Pure."""

from __future__ import annotations

from collections.abc import Hashable

from clusterlab.topology.drawing.bundles import bundles, tier_links
from clusterlab.topology.drawing.groups import Pod
from clusterlab.topology.drawing.marks import SMALL_PX, Box, Panel, wrapped
from clusterlab.topology.drawing.rows import SPINE_HEIGHT, TIER, Fold, Rows, folded, named
from clusterlab.topology.drawing.tiers import boxed
from clusterlab.topology.drawing.words import plural
from clusterlab.topology.fabric import Fabric


def cores_panel(fabric: Fabric) -> Panel:
    """Cores over pods."""
    return _CoreDrawing(fabric).draw()


class _CoreDrawing(Rows):
    """Cores and pods."""

    def draw(self) -> Panel:
        pods = {pod.name: pod for pod in self.groups.pods}
        of = {group.name: group for group in self.groups.cores}
        folds = folded(list(of), lambda name: len(of[name].switches), most=8)
        pod_folds = folded(list(pods), lambda name: self.alike(pods[name]), most=10)
        key = {m: f.key for f in (*folds, *pod_folds) for m in f.members}
        pod_of = {g.name: pod.name for pod in self.groups.pods for g in pod.spines}
        group_of = {
            d: key[pod_of.get(group, group)]
            for d, group in self.groups.group_of.items()
            if pod_of.get(group, group) in key
        }
        upper = self.spine_row(folds, of, 2.0)
        y = 2.0 + TIER
        lower = {}
        height = 0.0
        for fold, (x, width) in zip(pod_folds, self.places(len(pod_folds)), strict=True):
            lines = self.pod_lines(fold, pods[fold.key], width - 10)
            height = max(height, 14 + 15.0 * len(lines))
            bad = any(self.faults[name] for name in fold.members)
            box = Box(x, y, width, 14 + 15.0 * len(lines), "frame", named(fold.members))
            boxed(self.layers, box, lines, down=bad)
            lower[fold.key] = (x + width / 2, y)
        found = bundles(tier_links(self.fabric), group_of)
        self.joined(found.values(), lower, upper, 2.0 + SPINE_HEIGHT + 34)
        return Panel(self.width, y + height, self.layers.marks())

    def alike(self, pod: Pod) -> Hashable:
        if self.faults[pod.name]:
            return pod.name
        return (
            len(pod.units),
            sum(u.gpus for u in pod.units),
            sum(len(g.switches) for g in pod.spines),
        )

    def pod_lines(self, fold: Fold, pod: Pod, width: float) -> list[tuple[str, str]]:
        hosts = sum(len(unit.hosts) for unit in pod.units)
        gpus = sum(unit.gpus for unit in pod.units)
        leaves = sum(len(unit.leaves) for unit in pod.units)
        spines = sum(len(group.switches) for group in pod.spines)
        faults = sum(self.faults[name] for name in fold.members)
        name = pod.name if len(fold.members) == 1 else f"{len(fold.members)} pods, each"
        lines = [
            (name, "label bold"),
            (plural(spines, "spine"), "label"),
            (plural(leaves, "leaf"), "label"),
            (f"{plural(len(pod.units), pod.units[0].noun)}, {plural(hosts, 'node')}", "label"),
            (plural(gpus, "GPU") if gpus else "", "label"),
            (plural(faults, "fault") if faults else "", "bad bold"),
        ]
        return [(piece, css) for text, css in lines for piece in wrapped(text, width, SMALL_PX)]
