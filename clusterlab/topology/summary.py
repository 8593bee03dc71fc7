"""What a fabric holds, counted: for `topo show` and for whoever compares two fabrics."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clusterlab.topology.capacity import (
    Side,
    SwitchCapacity,
    leaves_without_uplink,
    switch_capacities,
)
from clusterlab.topology.checks.nic_distance import DISTANCES, nearest_nics
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import find_faults, total
from clusterlab.topology.host_groups import host_groups, is_host_group
from clusterlab.topology.parts import DEVICE_KINDS, ROLES, SWITCH_KINDS, DeviceKind, Link
from clusterlab.topology.repeated import Repeated
from clusterlab.topology.shapes import HostShape, counted_links, host_shapes, of_kind

_SCALE_UP = ("nvlink", "xgmi")


def summary(fabric: Fabric) -> dict[str, Any]:
    """Plain data. Every GB/s is per direction and, but for ``wire_GBps``, usable; null where unknown.

    ``hosts_by_role``: compute are those with GPUs or with a NIC known to compute, unknown those of which no
    source says what they serve. ``devices`` by kind; ``aggregation_nodes`` are those of the NICs that are no
    adapters but the SHARP node inside a switch. ``links`` by class and rate, a link once for its two
    directions and ``multiplicity`` times where links run in parallel; ``rails`` that the leaves serve, or
    that devices name where there are no leaves; ``rail_aligned`` false where each leaf takes NICs of several
    rails; ``planes`` as marked; ``tiers`` of switches from the leaves up, by role, with the cables to what
    stands below; ``oversubscription`` of the leaves (down : up); ``bisection_GBps_at_most``: half of what
    the narrowest tier passes up, which is the bisection of a regular Clos and a bound on any other;
    ``per_gpu``: what most GPUs have, null where nothing tells which NICs serve them; ``host_groups``:
    Slurm's blocks, rings and tori by kind, which count as no device and no link; ``down``: hosts, devices
    and connections that are down or degraded. What is wrong with a fabric is for ``checks``.
    """
    named = _numbers(fabric, "rail")
    rails = _rails(fabric, named)
    return {
        "name": fabric.name,
        "description": fabric.description,
        "origin": fabric.origin,
        "hosts": len(fabric.hosts),
        "hosts_by_role": host_roles(fabric),
        "devices": device_counts(fabric),
        "aggregation_nodes": sum(
            d.kind == "nic" and d.role == "aggregation" for d in fabric.network_devices
        ),
        "links": _links(fabric),
        "rails": rails,
        "rail_aligned": None if not named or not fabric.of_kind("leaf") else rails > 0,
        "planes": _numbers(fabric, "plane"),
        "host_groups": dict(Counter(group.kind for group in host_groups(fabric))),
        "tiers": _tiers(fabric),
        "oversubscription": _oversubscription(fabric),
        "bisection_GBps_at_most": _bisection(fabric),
        "per_gpu": _per_gpu(fabric),
        "down": _down(fabric),
    }


def device_counts(fabric: Fabric) -> dict[str, int]:
    """How many devices of each kind, without making those of equal hosts."""
    kinds: Counter[str] = Counter(d.kind for d in fabric.single_devices if not is_host_group(d))
    for group in fabric.equal_hosts:
        for d in group.items:
            kinds[d.kind] += len(group.hosts)
    return {kind: kinds[kind] for kind in DEVICE_KINDS if kinds[kind]}


def host_roles(fabric: Fabric) -> dict[str, int]:
    """How many hosts serve what, as far as their GPUs and the roles of their NICs tell."""
    counts: Counter[str] = Counter()
    for shape in host_shapes(fabric):
        counts[_host_role(shape)] += len(shape.hosts)
    return {role: counts[role] for role in (*ROLES, "unknown") if counts[role]}


def compute_hosts(fabric: Fabric) -> set[str]:
    """The hosts that are known to compute, as ``host_roles`` counts them."""
    shapes = host_shapes(fabric)
    return {host for shape in shapes if _host_role(shape) == "compute" for host in shape.hosts}


def _host_role(shape: HostShape) -> str:
    roles = {d.role for d in of_kind(shape.devices, "nic")}
    if "compute" in roles or of_kind(shape.devices, "gpu"):
        return "compute"
    return next((role for role in ("storage", "management") if role in roles), "unknown")


def _links(fabric: Fabric) -> list[dict[str, Any]]:
    cables: Counter[tuple[str, float | None, float | None]] = Counter()
    seen: Counter[tuple[str, str, str, str, float | None, float | None]] = Counter()
    groups = {group.name for group in host_groups(fabric)}
    for link, times, host in counted_links(fabric):
        if link.src in groups or link.dst in groups:
            continue
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


def _rails(fabric: Fabric, named: int) -> int:
    """How many rails the leaves serve: each that of its mark, or the one that all its cables are of."""
    leaves = {d.name: d.rail for d in fabric.network_devices if d.kind == "leaf"}
    if not named or not leaves:
        return named
    served: defaultdict[str, set[int | None]] = defaultdict(set)
    for link in fabric.network_links:
        if link.dst in leaves and fabric.host_of(link.src) is not None:
            served[link.dst].add(link.rail)
    found = set(leaves.values())
    for leaf, rails in served.items():
        if leaves[leaf] is None and len(rails) == 1:
            found |= rails
    return len(found - {None})


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
    cut = [leaf.name for leaf in leaves_without_uplink(fabric)] if cables else []
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
        if gpus:
            GBps = _out_of(fabric, host, serving_nics(shape))
            scale_out[None if GBps is None else GBps / len(gpus)] += len(shape.hosts)
    return {"scale_up_GBps": _commonest(scale_up), "scale_out_GBps": _commonest(scale_out)}


def serving_nics(shape: HostShape) -> tuple[str, ...]:
    """The NICs (local names) that carry a host's GPUs to others: those of role compute; where no role is
    known, those below a GPU's own switches or host bridge, else those nearest to any. Nothing where that
    does not tell: one GPU has more of them than another, so that one may serve something else.
    """
    nics = of_kind(shape.devices, "nic")
    known = tuple(nic.name for nic in nics if nic.role == "compute")
    if known:
        return known
    as_wired = replace(shape, links=tuple(replace(k, health=1.0) for k in shape.links))
    nearest = nearest_nics(as_wired).values()
    close = [names for distance, names in nearest if distance <= DISTANCES.index("PHB")]
    found = {name for names in close or [names for _, names in nearest] for name in names}
    return tuple(sorted(found)) if len({len(names) for names in close}) < 2 else ()


def _out_of(fabric: Fabric, host: str, nics: Iterable[str]) -> float | None:
    """What some NICs of a host carry to outside; None where they differ: then not all serve the GPUs."""
    out = [
        [k for k in fabric.links_from(f"{host}/{nic}") if fabric.host_of(k.dst) != host]
        for nic in nics
    ]
    kinds = {(k.link_class, k.GBps) for links in out for k in links}
    return _whole(k for links in out for k in links) if len(kinds) == 1 and all(out) else None


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
