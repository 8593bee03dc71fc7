"""Capacity that is not what it should be: live against declared, a device against its equals, one cable
against the others of its bundle. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.capacity import Side, SwitchCapacity, leaf_capacities
from clusterlab.topology.checks.evidence import MOST_LINKS, bounded, merged, rate, usual
from clusterlab.topology.checks.uplinks import Shortage, shortages
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import as_wired, find_faults
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.shapes import host_shapes, of_kind

_TOLERANCE = 1.005
"""Ratios of sums of rates: no real difference is smaller."""

_SCALE_UP = frozenset({"nvlink", "xgmi"})
_PCIE = frozenset({"pcie"})
_COMPARED = (("gpu", "scale-up", _SCALE_UP), ("gpu", "PCIe", _PCIE), ("nic", "PCIe", _PCIE))

Line = tuple[str, str, str]
"""A name, a remark on it, and what is wrong with it."""

Measure = tuple[float, int, bool]
"""GB/s, cables, and whether all rates are known (else only the cables count)."""


def capacity_mismatch(fabric: Fabric) -> list[Finding]:
    """The findings of all three comparisons."""
    return [
        *oversubscription_mismatch(fabric),
        *asymmetric_capacity(fabric),
        *unequal_bundle(fabric),
    ]


def oversubscription_mismatch(fabric: Fabric) -> list[Finding]:
    """Leaves whose live down : up is worse than declared for their network, or, where nothing is declared,
    than that of most leaves (and than 1:1).

    Where nothing is declared, a leaf that is worse only for the uplinks it lacks beside its peers is left to
    ``uplinks``, which tells of it with the very cables.
    """
    leaves = [
        leaf
        for leaf in leaf_capacities(fabric)
        if leaf.down.links and leaf.nominal_up.links and _is_cabling(fabric, leaf)
    ]
    lacking = shortages(as_wired(fabric))
    worse: list[tuple[float, Line]] = []
    by_fault = True
    for role, group in _by_role(fabric, leaves).items():
        declared = fabric.oversubscription.get(role)
        norm = declared if declared is not None else _usual_ratio(group)
        if norm is None:
            continue
        said = (
            f"declared {norm:.3g}:1" if declared is not None else f"most leaves have {norm:.3g}:1"
        )
        for leaf in group:
            live = leaf.oversubscription
            if declared is None and _told_by_uplinks(leaf, lacking.get(leaf.name), norm):
                continue
            if live is None or live > norm * _TOLERANCE:
                worse.append((live or float("inf"), _leaf_line(leaf, live, said)))
                nominal = leaf.nominal_oversubscription
                by_fault = by_fault and nominal is not None and nominal <= norm * _TOLERANCE
    if not worse:
        return []
    worse.sort(key=lambda line: -line[0])
    return [
        Finding(
            code="oversubscription_mismatch",
            severity=Severity.WARNING,
            evidence=merged((line for _, line in worse), "leaves"),
            fix="bring the uplinks back, or declare the ratio that is really there",
            caused_by="link_down" if by_fault else None,
        )
    ]


def _told_by_uplinks(leaf: SwitchCapacity, shortage: Shortage | None, norm: float) -> bool:
    """Whether nothing is down on the leaf, and with the uplinks of its peers it would be as they are."""
    nominal = leaf.nominal_oversubscription
    if shortage is None or nominal is None or leaf.oversubscription != nominal:
        return False
    return nominal * shortage.found / shortage.expected <= norm * _TOLERANCE


def _by_role(fabric: Fabric, leaves: Iterable[SwitchCapacity]) -> dict[str, list[SwitchCapacity]]:
    groups: defaultdict[str, list[SwitchCapacity]] = defaultdict(list)
    for leaf in leaves:
        groups[fabric.device(leaf.name).role or "compute"].append(leaf)
    return groups


def _is_cabling(fabric: Fabric, leaf: SwitchCapacity) -> bool:
    """Whether the leaf's links are cables: a Slurm file's tree says who is near whom, not how many."""
    return any(k.link_class != "network" for k in fabric.links_from(leaf.name))


def _usual_ratio(leaves: Iterable[SwitchCapacity]) -> float | None:
    """The commonest nominal ratio of at least three leaves, never below 1: less than 1 harms nobody."""
    ratios = Counter(
        round(r, 3) for leaf in leaves if (r := leaf.nominal_oversubscription) is not None
    )
    return max(1.0, ratios.most_common(1)[0][0]) if ratios.total() >= 3 else None


def _leaf_line(leaf: SwitchCapacity, live: float | None, said: str) -> Line:
    ratio = "nothing goes up" if live is None else f"{live:.3g}:1"
    rail = "" if leaf.rail is None else f" (rail {leaf.rail})"
    return leaf.name, rail, f"{_side(leaf.down)} down, {_side(leaf.up)} up live, {ratio}; {said}"


def _side(side: Side) -> str:
    return f"{side.links} cables" + ("" if side.GBps is None else f" {side.GBps:.5g} GB/s")


def asymmetric_capacity(fabric: Fabric) -> list[Finding]:
    """GPUs and NICs inside hosts wired with less than their equals (NICs to leaves and leaves to spines are
    for ``cabling``). What is down counts as wired: ``down`` tells of it.
    """
    lines = list(_lines(fabric))
    if not lines:
        return []
    return [
        Finding(
            code="asymmetric_capacity",
            severity=Severity.WARNING,
            evidence=merged(lines, "devices"),
            fix="look for NVLinks that did not train, and for slots and cards that negotiated a lower PCIe "
            "speed or width",
        )
    ]


def _measure(links: Iterable[Link]) -> Measure:
    found = list(links)
    known = all(k.GBps is not None for k in found)
    cables = sum(k.multiplicity for k in found)
    return (sum((k.GBps or 0.0) * k.multiplicity for k in found) if known else 0.0, cables, known)


def _text(measure: Measure) -> str:
    GBps, cables, known = measure
    return f"{cables} links" + (f", {rate(GBps)}" if known else "")


def _less(measure: Measure, norm: Measure) -> bool:
    if measure[2] and norm[2]:
        return measure[0] * _TOLERANCE < norm[0]
    return measure[1] < norm[1]


def _lines(fabric: Fabric) -> Iterator[Line]:
    """GPUs and NICs of one model and role, over all hosts, by what they have of each kind of link."""
    for kind, what, classes in _COMPARED:
        groups: defaultdict[tuple[str | None, ...], Counter[Measure]] = defaultdict(Counter)
        measured: list[tuple[tuple[str, ...], Device, Measure]] = []
        for hosts, device, links in _equal_devices(fabric, kind, classes):
            measure = _measure(links)
            groups[device.model, device.role][measure] += len(hosts)
            measured.append((hosts, device, measure))
        for hosts, device, measure in measured:
            norm = usual(groups[device.model, device.role])
            # No PCIe link at all: the source does not say where the card is.
            described = measure[1] or classes is not _PCIE
            if norm is not None and described and _less(measure, norm):
                text = (
                    f"{what} {_text(measure)}; most {device.model or kind + 's'} have {_text(norm)}"
                )
                for host in hosts:
                    yield f"{host}/{device.name}", "", text


def _equal_devices(
    fabric: Fabric, kind: str, classes: frozenset[str]
) -> Iterator[tuple[tuple[str, ...], Device, list[Link]]]:
    """Hosts, a device of theirs and its links of these classes: within the host and, where GPUs reach
    NVSwitches outside it (a rack), host by host with those.
    """
    outer: defaultdict[str, list[Link]] = defaultdict(list)
    for link in fabric.network_links:
        if link.link_class in classes:
            outer[link.src].append(link)
    for shape in host_shapes(fabric):
        for device in of_kind(shape.devices, kind):
            inner = [k for k in shape.links if k.src == device.name and k.link_class in classes]
            if not outer:
                yield shape.hosts, device, inner
                continue
            for host in shape.hosts:
                yield (host,), device, [*inner, *outer.get(f"{host}/{device.name}", ())]


def unequal_bundle(fabric: Fabric) -> list[Finding]:
    """Connections whose parallel cables are not equally well: traffic spread evenly over them goes at the
    pace of the worst.
    """
    odd = [
        c for c in find_faults(fabric).connections if c.cables > 1 and not c.whole and c.degraded
    ]
    uneven = [c for c in odd if c.degraded < c.cables]
    if not uneven:
        return []
    lines = [
        f"{c.name}: of {c.cables} cables {c.cables - c.down - c.degraded} whole, "
        f"{c.degraded} degraded, {c.down} down"
        for c in uneven
    ]
    return [
        Finding(
            code="unequal_bundle",
            severity=Severity.WARNING,
            evidence=bounded(lines, "bundles"),
            fix="take the degraded cable out of service: evenly spread traffic (ECMP, static routing) "
            "waits for the slowest cable of a bundle",
            links=tuple(c.name for c in uneven[:MOST_LINKS]),
            caused_by="link_degraded",
        )
    ]
