"""What is down or degraded, and what that costs. Pure.

One finding for each kind of fault, so that a thousand broken cables are one finding; the evidence names
the first of them with its cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from clusterlab.core.findings import Finding, Severity
from clusterlab.topology.checks.evidence import MOST_LINKS, bounded, hosts_text, merged, rate
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.failures.faults import Connection, Faults, find_faults, total
from clusterlab.topology.parts import Device, Link

Line = tuple[str, str, str]
"""A name, a remark on it, and what its fault costs."""

_NETWORK = frozenset({"leaf", "spine", "core", "external"})

_SEVERITY = {
    "host": Severity.ERROR,
    "leaf": Severity.ERROR,
    "nic": Severity.ERROR,
    "gpu": Severity.ERROR,
    "nvswitch": Severity.ERROR,
}

_FIX = {
    "host": "drain the host, or leave it out of the placement",
    "leaf": "its rail is gone for its hosts: replace it, or keep jobs off them",
    "nic": "its GPU sends through another NIC: replace it, or drain the host",
    "gpu": "drain the host",
    "nvswitch": "drain the host; DGX systems refuse multi-GPU jobs until the switch is back",
    "link": "reseat or replace the cable; `ibdiagnet` and `mlxlink` tell which end",
    "degraded": "look at width, speed and error counters of the link: dust, a half-width slot, lanes lost",
}


def down(fabric: Fabric) -> list[Finding]:
    """Hosts, devices and links that are down, links that are degraded, end points that are cut off."""
    faults = find_faults(fabric)
    if not faults:
        return []
    return [
        *_cut_off(fabric, faults),
        *_hosts(fabric, faults),
        *_devices(fabric, faults),
        *_links(fabric, faults),
    ]


def _cut_off(fabric: Fabric, faults: Faults) -> list[Finding]:
    before, now = reach(fabric, ignore_health=True), reach(fabric)
    if before.pairs == now.pairs:
        return []
    explained = set(faults.hosts) | {d.name for d in faults.devices}
    already = set(before.alone)
    alone = [
        name
        for name in now.alone
        if name not in already and name not in explained and fabric.host_of(name) not in explained
    ]
    lines = [f"{before.pairs - now.pairs} of {before.pairs} pairs of end points are cut", *alone]
    return [
        Finding(
            code="cut_off",
            severity=Severity.ERROR,
            evidence=bounded(lines, "that reach nobody"),
            fix="no job may span both sides; leave out what cannot be reached",
            caused_by="host_down" if faults.hosts and not alone else None,
        )
    ]


def _hosts(fabric: Fabric, faults: Faults) -> list[Finding]:
    if not faults.hosts:
        return []
    gpus = sum(len(fabric.on_host(host, "gpu")) for host in faults.hosts)
    line = hosts_text(faults.hosts) + (f": {gpus} GPUs" if gpus else "")
    return [replace(_finding("host_down", "host", (), ()), evidence=(line,))]


def _devices(fabric: Fabric, faults: Faults) -> list[Finding]:
    by_kind: defaultdict[str, list[Device]] = defaultdict(list)
    for device in faults.devices:
        by_kind[device.kind].append(device)
    return [
        _finding(
            f"{kind}_down",
            kind,
            [(d.name, _rail(d), _COST.get(kind, _cost_links)(fabric, d)) for d in devices],
            [d.name for d in devices],
        )
        for kind, devices in by_kind.items()
    ]


def _rail(device: Device) -> str:
    return "" if device.rail is None else f" (rail {device.rail})"


def _cost_nic(fabric: Fabric, nic: Device) -> str:
    if nic.host is None:
        return _cost_links(fabric, nic)
    nics = [n for n in fabric.on_host(nic.host, "nic") if n.role == nic.role]
    out = [_out_of_host(fabric, n) for n in nics]
    up = [links for links in out if any(k.health > 0 for k in links)]
    return f"its host keeps {len(up)} of {len(nics)} NICs, {_live_of(k for of in out for k in of)}"


def _out_of_host(fabric: Fabric, nic: Device) -> list[Link]:
    return [k for k in fabric.links_from(nic.name) if fabric.host_of(k.dst) != nic.host]


def _live_of(links: Iterable[Link]) -> str:
    """``336 of 384 GB/s``."""
    every = list(links)
    live = total(k.capacity_GBps for k in every)
    whole = total(None if k.GBps is None else k.GBps * k.multiplicity for k in every)
    if live is None or whole is None:
        cables = sum(k.multiplicity for k in every)
        return f"{sum(k.multiplicity for k in every if k.health > 0)} of {cables} links"
    return f"{live:.5g} of {whole:.5g} GB/s"


def _cost_leaf(fabric: Fabric, leaf: Device) -> str:
    hosts = [h for k in fabric.links_from(leaf.name) if (h := fabric.host_of(k.dst)) is not None]
    lost = total(
        None if k.GBps is None else k.GBps * k.multiplicity
        for k in fabric.links_from(leaf.name)
        if fabric.host_of(k.dst) is not None
    )
    return f"{len(set(hosts))} hosts lose {len(hosts)} NIC links, {rate(lost)}"


def _cost_spine(fabric: Fabric, spine: Device) -> str:
    below = [k for k in fabric.links_from(spine.name) if fabric.device(k.dst).kind != "core"]
    ends = sorted({k.dst for k in below})
    if not ends:
        return _cost_links(fabric, spine)
    up = [k for k in fabric.links_from(ends[0]) if fabric.device(k.dst).kind == spine.kind]
    return f"{len(ends)} switches below lose a path up; {ends[0]} keeps {_live_of(up)}"


def _cost_nvswitch(fabric: Fabric, switch: Device) -> str:
    gpus = [k.dst for k in fabric.links_from(switch.name) if fabric.device(k.dst).kind == "gpu"]
    if not gpus:
        return _cost_links(fabric, switch)
    keeps = _live_of(k for k in fabric.links_from(gpus[0]) if k.link_class in ("nvlink", "xgmi"))
    return f"{len(set(gpus))} GPUs lose links; each keeps {keeps}"


def _cost_links(fabric: Fabric, device: Device) -> str:
    count = sum(k.multiplicity for k in fabric.links_from(device.name))
    return f"all {count} links"


_COST: dict[str, Callable[[Fabric, Device], str]] = {
    "nic": _cost_nic,
    "leaf": _cost_leaf,
    "spine": _cost_spine,
    "core": _cost_spine,
    "nvswitch": _cost_nvswitch,
}


def _links(fabric: Fabric, faults: Faults) -> list[Finding]:
    gone = [c for c in faults.connections if c.down]
    weak = [c for c in faults.connections if c.degraded]
    found = []
    if gone:
        lines = [_gone(fabric, c) for c in gone]
        found.append(_finding("link_down", "link", lines, [c.name for c in gone]))
    if weak:
        lines = [_weak(c) for c in weak]
        found.append(_finding("link_degraded", "degraded", lines, [c.name for c in weak]))
    return found


def _gone(fabric: Fabric, connection: Connection) -> Line:
    """How many cables are down and, for a link up the tree, what the lower switch keeps."""
    text = f"{connection.down} of {connection.cables} {connection.link_class} links down"
    lower, upper = fabric.device(connection.a), fabric.device(connection.b)
    if lower.kind in _NETWORK and upper.kind in _NETWORK:
        up = [k for k in fabric.links_from(lower.name) if fabric.device(k.dst).kind == upper.kind]
        text += f"; {lower.name} keeps {_live_of(up)} up"
    elif connection.lost_GBps is not None:
        text += f", {rate(connection.lost_GBps)} lost"
    return connection.name, "", text


def _weak(connection: Connection) -> Line:
    lost = connection.lost_GBps
    cost = "" if lost is None else f", {rate(lost)} lost"
    text = (
        f"{connection.degraded} of {connection.cables} {connection.link_class} links degraded{cost}"
    )
    return connection.name, "", text


def _finding(code: str, kind: str, lines: Sequence[Line], names: Sequence[str]) -> Finding:
    return Finding(
        code=code,
        severity=_SEVERITY.get(kind, Severity.WARNING),
        evidence=merged(lines, "of them"),
        fix=_FIX.get(kind, "replace it, or leave out what depends on it"),
        links=tuple(names[:MOST_LINKS]),
    )
