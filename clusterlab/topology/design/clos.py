"""Leaf-spine-core networks made from a few numbers: rails, planes, SUs, pods, rail spine groups.

Leaves are numbered SU by SU, within an SU rail by rail, within a rail plane by plane. Every leaf spreads
its uplinks evenly over the spines it may use: those of its plane, in its pod, and with ``rail_groups``
those of its rail. Every spine spreads its uplinks over the cores of its position, so that each core sees
every group of spines (a folded Clos; NVIDIA's DGX SuperPOD reference architectures publish the counts,
not which spine port goes to which core).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterlab.core.errors import UsageError
from clusterlab.topology.design.parts import LinkKind
from clusterlab.topology.parts import Device, DeviceKind, Link, Role, between

Tier = DeviceKind


@dataclass(frozen=True)
class Clos:
    """One network. ``None`` in ``rails``: not rail aligned, all NICs of a host meet on one leaf per plane.

    ``spines`` and ``cores`` count all planes together. ``uplinks``: cables from a leaf to spines,
    ``core_uplinks``: from a spine to cores. ``ports``, ``models`` and ``kinds`` go by tier (leaf, spine,
    core); ``kinds["leaf"]`` is the cable from NIC to leaf, ``kinds["spine"]`` from leaf to spine,
    ``kinds["core"]`` from spine to core. ``oversubscription`` is what the design declares, leaf down : up.
    """

    hosts_per_su: int
    kinds: Mapping[str, LinkKind]
    rails: int | None = None
    planes: int = 1
    spines: int = 0
    cores: int = 0
    uplinks: int = 0
    core_uplinks: int = 0
    sus_per_pod: int | None = None
    rail_groups: bool = False
    role: Role = "compute"
    ports: Mapping[str, int] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Switch:
    """Where a switch stands: what decides who it is joined to."""

    device: Device
    pod: int
    group: int  # the rail, where spines belong to rails; else 0
    plane: int


def clos(
    shape: Clos, hosts: Sequence[str], nics: Mapping[int, Sequence[str]], *, where: str
) -> tuple[list[Device], list[Link]]:
    """Switches and links of ``shape`` for ``hosts``. ``nics`` are a host's NICs by rail (0 when not
    rail aligned), local names. Raises UsageError at ``where`` for numbers that cannot be wired.
    """
    sus = -(-len(hosts) // shape.hosts_per_su)
    leaves = _leaves(shape, sus)
    links = _to_leaves(shape, hosts, nics, leaves)
    if shape.spines:
        spines = _spines(shape, sus, where)
        links += _join(leaves, spines, shape.uplinks, shape.kinds["spine"], where=where)
        cores = _cores(shape)
        links += _to_cores(shape, spines, cores, where)
    else:
        spines, cores = [], []
    devices = [s.device for s in (*leaves, *spines, *cores)]
    _within_ports(devices, links, where)
    return devices, links


def _prefix(shape: Clos) -> str:
    return "" if shape.role == "compute" else f"{shape.role}-"


def _switch(shape: Clos, tier: Tier, number: int, *, rail: int | None, plane: int) -> Device:
    return Device(
        name=f"{_prefix(shape)}{tier}{number}",
        kind=tier,
        model=shape.models.get(tier),
        rail=rail,
        plane=plane if shape.planes > 1 else None,
        role=shape.role,
        ports=shape.ports.get(tier),
    )


def _leaves(shape: Clos, sus: int) -> list[_Switch]:
    found: list[_Switch] = []
    for su in range(sus):
        for rail in range(shape.rails or 1):
            for plane in range(shape.planes):
                device = _switch(
                    shape,
                    "leaf",
                    len(found),
                    rail=None if shape.rails is None else rail,
                    plane=plane,
                )
                group = rail if shape.rail_groups else 0
                found.append(_Switch(device, su // (shape.sus_per_pod or sus), group, plane))
    return found


def _to_leaves(
    shape: Clos,
    hosts: Sequence[str],
    nics: Mapping[int, Sequence[str]],
    leaves: Sequence[_Switch],
) -> list[Link]:
    rails = shape.rails or 1
    links: list[Link] = []
    for number, host in enumerate(hosts):
        first = number // shape.hosts_per_su * rails * shape.planes
        for rail in range(rails):
            for plane in range(shape.planes):
                leaf = leaves[first + rail * shape.planes + plane].device
                for nic in nics.get(rail, ()):
                    links += _cable(f"{host}/{nic}", leaf, shape.kinds["leaf"], 1)
    return links


def _spines(shape: Clos, sus: int, where: str) -> list[_Switch]:
    pods = -(-sus // (shape.sus_per_pod or sus))
    groups = (shape.rails or 1) if shape.rail_groups else 1
    each, left = divmod(shape.spines, pods * groups * shape.planes)
    if left or not each:
        raise UsageError(
            f"{shape.spines} spines",
            where=where,
            expected=f"a multiple of {pods} pods x {groups} spine groups x {shape.planes} planes",
        )
    found: list[_Switch] = []
    for pod in range(pods):
        for group in range(groups):
            for plane in range(shape.planes):
                for _ in range(each):
                    rail = group if shape.rail_groups else None
                    device = _switch(shape, "spine", len(found), rail=rail, plane=plane)
                    found.append(_Switch(device, pod, group, plane))
    return found


def _join(
    lower: Sequence[_Switch], upper: Sequence[_Switch], uplinks: int, kind: LinkKind, *, where: str
) -> list[Link]:
    """Each lower switch to every upper one of its pod, group and plane, ``uplinks`` spread evenly."""
    above: dict[tuple[int, int, int], list[Device]] = {}
    for switch in upper:
        above.setdefault((switch.pod, switch.group, switch.plane), []).append(switch.device)
    links: list[Link] = []
    for switch in lower:
        seen = above[switch.pod, switch.group, switch.plane]
        parallel, left = divmod(uplinks, len(seen))
        if left or not parallel:
            raise UsageError(
                f"{uplinks} uplinks of {switch.device.name}",
                where=where,
                expected=f"a multiple of the {len(seen)} {seen[0].kind}s it sees",
            )
        for device in seen:
            links += _cable(switch.device.name, device, kind, parallel, lower=switch.device)
    return links


def _cores(shape: Clos) -> list[_Switch]:
    """Cores, plane after plane."""
    each = shape.cores // shape.planes
    return [
        _Switch(_switch(shape, "core", i, rail=None, plane=i // each), 0, 0, i // each)
        for i in range(shape.cores)
    ]


def _to_cores(
    shape: Clos, spines: Sequence[_Switch], cores: Sequence[_Switch], where: str
) -> list[Link]:
    """Spine number j of its group to the cores of position j: every core sees every group of spines."""
    if not cores:
        return []
    in_group = Counter((s.pod, s.group, s.plane) for s in spines)
    positions = max(in_group.values())
    each, left = divmod(len(cores) // shape.planes, positions)
    if left or not each or len(cores) % shape.planes:
        raise UsageError(
            f"{len(cores)} cores",
            where=where,
            expected=f"a multiple of {shape.planes} planes x {positions} spines of a group",
        )
    upper = [
        _Switch(c.device, 0, i % (len(cores) // shape.planes) // each, c.plane)
        for i, c in enumerate(cores)
    ]
    seen: Counter[tuple[int, int, int]] = Counter()
    lower = []
    for spine in spines:
        at = (spine.pod, spine.group, spine.plane)
        lower.append(_Switch(spine.device, 0, seen[at], spine.plane))
        seen[at] += 1
    return _join(lower, upper, shape.core_uplinks, shape.kinds["core"], where=where)


def _cable(
    low: str, high: Device, kind: LinkKind, parallel: int, *, lower: Device | None = None
) -> tuple[Link, Link]:
    """Both directions. The rail is the leaf's, or the upper switch's where it has one."""
    rail = high.rail if lower is None or high.rail is not None else lower.rail
    up = Link(
        src=low,
        dst=high.name,
        link_class=kind.link_class,
        GBps=kind.GBps,
        latency_us=kind.latency_us,
        multiplicity=parallel,
        wire_GBps=kind.wire_GBps,
        rail=rail,
        plane=high.plane,
        GBps_source=kind.GBps_source,
        latency_source=kind.latency_source,
        wire_source=kind.wire_source,
    )
    return up, between(up, up.dst, up.src)


def _within_ports(devices: Sequence[Device], links: Sequence[Link], where: str) -> None:
    cables: Counter[str] = Counter()
    for link in links:
        cables[link.src] += link.multiplicity
    for device in devices:
        if device.ports is not None and cables[device.name] > device.ports:
            raise UsageError(
                f"{cables[device.name]} cables at {device.name}",
                where=where,
                expected=f"at most its {device.ports} ports",
                fix="fewer hosts per leaf, fewer uplinks, or more switches",
            )
