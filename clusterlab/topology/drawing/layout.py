"""Which panels a fabric's picture has, and what it says in words. Pure.

From far to near: the network as pods and SUs where it is large, one SU with its hosts one by one, the
inside of one host of each kind, and a list of what is down. What has a fault is shown even where equal
things are shown once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from clusterlab.topology.checks.down import down
from clusterlab.topology.drawing.cores_panel import cores_panel
from clusterlab.topology.drawing.groups import grouped
from clusterlab.topology.drawing.host_panel import host_panel
from clusterlab.topology.drawing.marks import (
    LINE_PX,
    TITLE_PX,
    Cross,
    Panel,
    Stroke,
    Text,
    lines_of_text,
    stacked,
)
from clusterlab.topology.drawing.pods_panel import pod_panel
from clusterlab.topology.drawing.rails_panel import fits, of_unit, rails_panel, whole
from clusterlab.topology.drawing.rows import fault_counts
from clusterlab.topology.drawing.wiring_faults import wiring_faults
from clusterlab.topology.drawing.words import GBps_text, cables, plural, whole_GBps
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import find_faults
from clusterlab.topology.host_groups import host_groups
from clusterlab.topology.parts import SWITCH_KINDS
from clusterlab.topology.shapes import HostShape, host_shapes
from clusterlab.topology.summary import device_counts

T = TypeVar("T")

_GAP = 30.0
_MARGIN = 24.0
_TEXT_WIDTH = 1100.0
_MOST_ALIKE = 2
"""Of pods, units and kinds of host with faults, and of kinds of host without; more are only counted."""

_MOST_LINES = 24

_KIND_NAMES = {
    "gpu": "GPU",
    "nvswitch": "NVSwitch",
    "pcie_switch": "PCIe switch",
    "host_bridge": "host bridge",
    "cpu": "CPU",
    "nic": "NIC",
    "leaf": "leaf",
    "spine": "spine",
    "core": "core",
    "external": "external",
}


def picture(fabric: Fabric) -> tuple[Panel, str]:
    """The whole picture, and its text alternative."""
    faults = [f"{f.code.replace('_', ' ')}: {line}" for f in down(fabric) for line in f.evidence]
    wiring = wiring_faults(fabric).lines
    panels = [
        _header(fabric),
        *_network(fabric),
        *_insides(fabric),
        *_fault_list(faults),
        *_wiring_list(wiring),
    ]
    words = [_sentence(fabric.description), _sentence(_counts(fabric))]
    words += [_sentence(fault) for fault in faults] or ["Nothing is down."]
    words += ["Found in the cabling:", *map(_sentence, wiring)] if wiring else []
    return stacked(panels, gap=_GAP, margin=_MARGIN), " ".join(w for w in words if w)


def _sentence(text: str) -> str:
    return f"{text.rstrip('.')}." if text else ""


def _header(fabric: Fabric) -> Panel:
    about = lines_of_text(
        [line for line in (fabric.description, _counts(fabric)) if line],
        css="soft",
        width=_TEXT_WIDTH,
    )
    title = Panel(_TEXT_WIDTH, 26, (Text(0, 18, fabric.name, "label bold", "start", TITLE_PX),))
    return stacked([title, about], gap=0, margin=0)


def _counts(fabric: Fabric) -> str:
    """``31 nodes, 248 GPUs, 8 leaves, …``."""
    counts = device_counts(fabric)
    inner = sum(d.role == "aggregation" for d in fabric.network_devices if d.kind == "nic")
    counts["nic"] = counts.get("nic", 0) - inner
    shown = [plural(counts[kind], name) for kind, name in _KIND_NAMES.items() if counts.get(kind)]
    shown += [plural(inner, "aggregation node")] if inner else []
    groups = Counter(group.kind for group in host_groups(fabric))
    shown += [plural(count, kind) for kind, count in groups.items()]
    return (
        ", ".join([plural(len(fabric.hosts), "node"), *shown]) if fabric.hosts else ", ".join(shown)
    )


def _titled(title: str, panel: Panel) -> Panel:
    head = Panel(panel.width, 22, (Text(0, 14, title, "label bold", "start", 14),))
    return stacked([head, panel], gap=6, margin=0)


def _network(fabric: Fabric) -> Iterator[Panel]:
    """The network whole where it fits, else from far to near."""
    part = whole(fabric)
    switches = [d for d in fabric.network_devices if d.kind in (*SWITCH_KINDS, "nvswitch")]
    if not switches and len(fabric.hosts) < 2:
        return
    if fits(part):
        gpus = {len(fabric.on_host(host, "gpu")) for host in fabric.hosts} - {0}
        each = f" x {plural(gpus.pop(), 'GPU')}" if len(gpus) == 1 else ""
        title = f"Network of {plural(len(fabric.hosts), 'node')}{each}"
        yield _titled(title if fabric.hosts else "Network", rails_panel(fabric, part))
        return
    groups = grouped(fabric)
    counts = fault_counts(fabric, groups)
    if groups.cores:
        yield _titled("Cores and pods", cores_panel(fabric))
    pods = [pod for pod in groups.pods if pod.units]
    for pod, many in _chosen(pods, [(0, counts[p.name]) for p in pods]):
        title = f"Inside {pod.name}{many}" if len(pods) > 1 else "Network"
        yield _titled(title, pod_panel(fabric, pod))
    units = [u for pod in groups.pods for u in pod.units if len(u.hosts) > 2 and fits(of_unit(u))]
    faults = wiring_faults(fabric)
    # A leaf that is not there or crossed cables are no mere loss of uplinks.
    weights = [(faults.errors(leaf.name for leaf in u.leaves), counts[u.name]) for u in units]
    for unit, many in _chosen(units, weights):
        yield _titled(f"Inside {unit.name}{many}", rails_panel(fabric, of_unit(unit)))
    if groups.rest:
        names = ", ".join(d.name for d in groups.rest[:8])
        more = f", … {len(groups.rest)} in all" if len(groups.rest) > 8 else ""
        yield lines_of_text([f"Not drawn: {names}{more}."], css="soft", width=_TEXT_WIDTH)


def _chosen(items: Sequence[T], faults: Sequence[tuple[int, int]]) -> Iterator[tuple[T, str]]:
    """Those with most (errors, faults), or the first where none has; and what to say of how many."""
    ordered = sorted(zip(items, faults, strict=True), key=lambda pair: pair[1], reverse=True)
    hurt = [item for item, (_, count) in ordered if count]
    many = f", one of {len(items):,}" if len(items) > 1 else ""
    if items and not hurt:
        yield items[0], many
    for item in hurt[:_MOST_ALIKE]:
        yield item, f"{many}, with faults"


def _insides(fabric: Fabric) -> Iterator[Panel]:
    """One host of each kind; where some are hurt, these. Hosts that are down are left out."""
    gone = set(find_faults(fabric).hosts)
    shapes = [s for s in host_shapes(fabric) if len(s.links) and not gone.issuperset(s.hosts)]
    hurt = [s for s in shapes if any(k.health < 1 for k in s.links)]
    drawn = hurt or shapes
    for shape in drawn[:_MOST_ALIKE]:
        yield host_panel(
            shape, _host_title(shape, len(fabric.hosts)), outside=_outside(fabric, shape)
        )
    left = len(drawn) - _MOST_ALIKE
    if left > 0:
        yield lines_of_text([f"Kinds of host not drawn: {left}."], css="soft", width=_TEXT_WIDTH)


def _host_title(shape: HostShape, hosts: int) -> str:
    count = len(shape.hosts)
    if hosts == 1 or count == 1:
        return f"Inside {shape.hosts[0]}"
    all_of = "all" if count == hosts else f"{count:,} of {hosts:,}"
    return f"Inside {shape.hosts[0]} ({all_of} nodes are like it)"


def _outside(fabric: Fabric, shape: HostShape) -> list[str]:
    """What a GPU or NVSwitch of this host reaches over NVLink outside the host."""
    host = shape.hosts[0]
    lines = []
    for kind, noun in (("gpu", "GPU"), ("nvswitch", "NVSwitch")):
        for d in shape.devices:
            if d.kind != kind:
                continue
            links = [
                k
                for k in fabric.links_from(f"{host}/{d.name}")
                if k.link_class in ("nvlink", "xgmi") and fabric.host_of(k.dst) != host
            ]
            if links:
                ends = len({k.dst for k in links})
                lines.append(
                    f"each {noun}: {plural(cables(links), 'link')} to {plural(ends, 'NVSwitch')} outside, "
                    f"{GBps_text(whole_GBps(links))}"
                )
    return list(dict.fromkeys(lines))


def _wiring_list(lines: Sequence[str]) -> Iterator[Panel]:
    """What is missing or cross-wired, in words, and how it is drawn."""
    if not lines:
        return
    says = "red, dotted: cables or a leaf missing beside the others; a ringed dot: a cable on another rail"
    key = Panel(
        _TEXT_WIDTH,
        LINE_PX + 4,
        (
            Stroke(0, 9, 30, 9, "fault", 1.4, "2 4"),
            Text(40, 13, says, "label", "start"),
        ),
    )
    more = len(lines) - _MOST_LINES
    shown = [*lines[:_MOST_LINES], *([f"… and {more} more: topo check"] if more > 0 else [])]
    listed = lines_of_text(shown, css="bad", width=_TEXT_WIDTH)
    yield _titled("Found in the cabling", stacked([key, listed], gap=2, margin=0))


def _fault_list(faults: Sequence[str]) -> Iterator[Panel]:
    """What is down, in words, and how it is drawn."""
    if not faults:
        return
    key = Panel(
        _TEXT_WIDTH,
        LINE_PX + 4,
        (
            Stroke(0, 9, 30, 9, "fault", 2.2, "5 3"),
            Cross(15, 9),
            Text(
                40,
                13,
                "red, dashed, with a cross: down; with a share beside it: degraded",
                "label",
                "start",
            ),
        ),
    )
    lines = lines_of_text(faults, css="bad", width=_TEXT_WIDTH)
    yield _titled("Down or degraded", stacked([key, lines], gap=2, margin=0))
