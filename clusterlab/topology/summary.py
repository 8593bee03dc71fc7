"""What a fabric holds, counted: for `topo show` and for whoever compares two fabrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from clusterlab.topology.capacity import Side, SwitchCapacity, switch_capacities
from clusterlab.topology.checks.all_checks import check
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import find_faults, total
from clusterlab.topology.parts import DEVICE_KINDS, SWITCH_KINDS, DeviceKind, Link
from clusterlab.topology.repeated import Repeated
from clusterlab.topology.shapes import counted_links, host_shapes, of_kind

_SCALE_UP = ("nvlink", "xgmi")
_COMPUTE = (None, "compute")


def summary(fabric: Fabric) -> dict[str, Any]:
    """Plain data. Every GB/s is per direction and, but for ``wire_GBps``, usable; null where unknown.

    ``devices`` by kind; ``links`` by class and rate, a link once for its two directions and
    ``multiplicity`` times where links run in parallel; ``rails`` and ``planes`` as marked; ``tiers`` of
    switches from the leaves up, by role, with the cables to what stands below; ``oversubscription`` of
    the leaves (down : up); ``bisection_GBps_at_most``: half of what the narrowest tier passes up, which
    is the bisection of a regular Clos and a bound on any other; ``per_gpu``: what most GPUs have;
    ``down``: hosts, devices and connections that are down or degraded; ``findings`` by severity.
    """
    return {
        "name": fabric.name,
        "description": fabric.description,
        "origin": fabric.origin,
        "hosts": len(fabric.hosts),
        "devices": _devices(fabric),
        "links": _links(fabric),
        "rails": _numbers(fabric, "rail"),
        "planes": _numbers(fabric, "plane"),
        "tiers": _tiers(fabric),
        "oversubscription": _oversubscription(fabric),
        "bisection_GBps_at_most": _bisection(fabric),
        "per_gpu": _per_gpu(fabric),
        "down": _down(fabric),
        "findings": dict(Counter(str(finding.severity) for finding in check(fabric))),
    }


def _devices(fabric: Fabric) -> dict[str, int]:
    kinds: Counter[str] = Counter(d.kind for d in fabric.single_devices)
    for group in fabric.equal_hosts:
        for d in group.items:
            kinds[d.kind] += len(group.hosts)
    return {kind: kinds[kind] for kind in DEVICE_KINDS if kinds[kind]}


def _links(fabric: Fabric) -> list[dict[str, Any]]:
    cables: Counter[tuple[str, float | None, float | None]] = Counter()
    seen: Counter[tuple[str, str, str, str, float | None, float | None]] = Counter()
    for link, times, host in counted_links(fabric):
        kind = (link.link_class, link.GBps, link.wire_GBps)
        seen[host, link.src, link.dst, *kind] += link.multiplicity
        # The way back of a cable that was counted on its way out adds nothing.
        there, back = seen[host, link.src, link.dst, *kind], seen[host, link.dst, link.src, *kind]
        if link.src == link.dst or there > back:
            cables[kind] += link.multiplicity * times
    return [
        {"class": link_class, "count": count, "GBps": rate, "wire_GBps": wire}
        for (link_class, rate, wire), count in cables.items()
    ]


def _numbers(fabric: Fabric, field: str) -> int:
    """How many rails or planes the devices name."""
    devices = fabric.devices
    repeated = devices.groups if isinstance(devices, Repeated) else ()
    every = [*(d for group in repeated for d in group.items), *fabric.single_devices]
    return len({getattr(d, field) for d in every} - {None})


def _tiers(fabric: Fabric) -> list[dict[str, Any]]:
    tiers = []
    for kind, role, switches in _by_tier(fabric):
        tiers.append(
            {
                "kind": kind,
                "role": role,
                "switches": len(switches),
                "cables_down": sum(s.nominal_down.links + s.nominal_beside.links for s in switches),
                "live_cables_down": sum(s.down.links + s.beside.links for s in switches),
                "GBps_down": _sum(
                    side for s in switches for side in (s.nominal_down, s.nominal_beside)
                ),
                "live_GBps_down": _sum(side for s in switches for side in (s.down, s.beside)),
            }
        )
    return tiers


def _by_tier(fabric: Fabric) -> list[tuple[DeviceKind, str, list[SwitchCapacity]]]:
    """The switches of each tier and role, from the leaves up; kept in the fabric's memo."""
    known: list[tuple[DeviceKind, str, list[SwitchCapacity]]] | None = fabric.memo.get("tiers")
    if known is not None:
        return known
    roles = {d.name: d.role or "compute" for d in fabric.network_devices}
    found = []
    for kind in SWITCH_KINDS:
        by_role: defaultdict[str, list[SwitchCapacity]] = defaultdict(list)
        for switch in switch_capacities(fabric, kind):
            by_role[roles.get(switch.name, "compute")].append(switch)
        found += [(kind, role, switches) for role, switches in by_role.items()]
    fabric.memo["tiers"] = found
    return found


def _sum(sides: Iterable[Side]) -> float | None:
    return total(side.GBps for side in sides)


def _oversubscription(fabric: Fabric) -> dict[str, Any]:
    """Declared by role, and the worst leaf of the compute network as wired and as it is now.

    No figure where links of class ``network`` only say which switch stands above which.
    """
    cables = any(link.link_class != "network" for link in fabric.network_links)
    leaves = [
        leaf
        for kind, role, switches in _by_tier(fabric)
        if kind == "leaf" and role == "compute" and cables
        for leaf in switches
        if leaf.down.links
    ]
    nominal = [r for leaf in leaves if (r := leaf.nominal_oversubscription) is not None]
    live = [(r, leaf.name) for leaf in leaves if (r := leaf.oversubscription) is not None]
    cut = [leaf.name for leaf in leaves if leaf.nominal_up.links and not leaf.up.links]
    worst = max(live, default=(None, None))
    return {
        "declared": dict(fabric.oversubscription),
        "nominal": max(nominal, default=None),
        "live": worst[0],
        "worst_leaf": cut[0] if cut else worst[1],
        "leaves_without_uplink": len(cut),
    }


def _bisection(fabric: Fabric) -> float | None:
    above = [
        _sum(s.up for s in switches)
        for kind, role, switches in _by_tier(fabric)
        if role == "compute" and any(s.nominal_up.links for s in switches)
    ]
    known = [GBps for GBps in above if GBps is not None]
    return min(known) / 2 if known and len(known) == len(above) else None


def _per_gpu(fabric: Fabric) -> dict[str, float | None]:
    """NVLink or xGMI of a GPU, and its share of its host's NICs, as wired."""
    scale_up: Counter[float | None] = Counter()
    scale_out: Counter[float | None] = Counter()
    for shape in host_shapes(fabric):
        gpus = of_kind(shape.devices, "gpu")
        host = shape.hosts[0]
        for gpu in gpus:
            links = [k for k in shape.links if k.src == gpu.name]
            links += [
                k for k in fabric.links_from(f"{host}/{gpu.name}") if fabric.host_of(k.dst) != host
            ]
            own = [k for k in links if k.link_class in _SCALE_UP]
            scale_up[_whole(own) if own else None] += len(shape.hosts)
        out = [
            k
            for nic in of_kind(shape.devices, "nic")
            if nic.role in _COMPUTE
            for k in fabric.links_from(f"{host}/{nic.name}")
            if fabric.host_of(k.dst) != host
        ]
        if gpus:
            GBps = _whole(out) if out else None
            scale_out[None if GBps is None else GBps / len(gpus)] += len(shape.hosts)
    return {"scale_up_GBps": _commonest(scale_up), "scale_out_GBps": _commonest(scale_out)}


def _whole(links: Iterable[Link]) -> float | None:
    return total(None if k.GBps is None else k.GBps * k.multiplicity for k in links)


def _commonest(counts: Counter[float | None]) -> float | None:
    return counts.most_common(1)[0][0] if counts else None


def _down(fabric: Fabric) -> dict[str, int]:
    faults = find_faults(fabric)
    return {
        "hosts": len(faults.hosts),
        "devices": len(faults.devices),
        "connections": len(faults.connections),
    }
