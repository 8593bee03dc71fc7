"""What is wrong with how a network is cabled, judged by its own pattern. Pure, on any fabric.

Nothing here compares with a design: a fault is what differs from most of its kind. Where a network shows no
pattern, nothing is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.order import natural
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.topology.checks.evidence import at_port
from clusterlab.topology.checks.link_rates import degraded_links
from clusterlab.topology.checks.rack_cables import cross_wired_racks, exchanged_rails
from clusterlab.topology.checks.rail_leaves import missing_leaves
from clusterlab.topology.checks.rail_names import rail_said
from clusterlab.topology.checks.stray_cables import (
    exchanged_uplinks,
    host_on_spine,
    leaf_to_leaf,
    misplaced,
)
from clusterlab.topology.checks.switch_rates import slow_switches
from clusterlab.topology.checks.uplinks import uplinks
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device
from clusterlab.topology.rails.classes import Attachment, storage_nics
from clusterlab.topology.rails.infer import Rails, Stray, infer_rails

_SHOWN = 12
_SHOWN_HOSTS = 64


def cabling(fabric: Fabric) -> list[Finding]:
    """All findings of this room's cabling checks, with port numbers where a source tells them."""
    return [
        *cross_wired_rails(fabric),
        *cross_wired_racks(fabric),
        *exchanged_rails(fabric),
        *missing_leaves(fabric),
        *host_on_spine(fabric),
        *hosts_missing_a_rail(fabric),
        *uplinks(fabric),
        *exchanged_uplinks(fabric),
        *leaf_to_leaf(fabric),
        *degraded_links(fabric),
        *slow_switches(fabric),
        *ports_without_host(fabric),
        *storage_among_compute(fabric),
    ]


def cross_wired_rails(fabric: Fabric) -> list[Finding]:
    """Cables that put a host's device on another rail; one finding for cables that were swapped."""
    rails = infer_rails(fabric)
    return [_cross_wired(fabric, rails, together) for together in _swaps(rails)]


def _swaps(rails: Rails) -> Iterable[list[Stray]]:
    """Strays that undo each other: within a host, else two of one group, else each alone."""
    of_host: defaultdict[str, list[Stray]] = defaultdict(list)
    for stray in rails.strays:
        of_host[stray.cable.host].append(stray)
    left: list[Stray] = []
    for own in of_host.values():
        if len(own) > 1 and sorted(s.rail for s in own) == sorted(s.found_on for s in own):
            yield own
        else:
            left += own
    while left:
        first = left.pop(0)
        group = rails.group_of_host.get(first.cable.host)
        partner = next(
            (
                s
                for s in left
                if (s.rail, s.found_on) == (first.found_on, first.rail)
                and rails.group_of_host.get(s.cable.host) == group
            ),
            None,
        )
        if partner is not None:
            left.remove(partner)
        yield [first] if partner is None else [first, partner]


def _cross_wired(fabric: Fabric, rails: Rails, together: Sequence[Stray]) -> Finding:
    said = {r: rail_said(rails, r) for s in together for r in (s.rail, s.found_on)}
    evidence = [
        f"{_cable(fabric, s.cable)} is on {said[s.found_on]}, belongs to {said[s.rail]}"
        f" ({_agreeing(rails, s)})"
        for s in together
    ]
    if len(together) == 2:
        ends = " and ".join(at_port(fabric, s.cable.leaf, s.cable.nic) for s in together)
        fix = f"exchange the two cables in {ends}"
    else:
        fix = "move the cable: " + "; ".join(_move(fabric, s) for s in together)
    return Finding(
        "cross_wired_rails",
        Severity.ERROR,
        tuple(evidence),
        fix,
        links=tuple(f"{s.cable.nic}/{s.cable.leaf}" for s in together),
    )


def _cable(fabric: Fabric, cable: Attachment) -> str:
    nic = fabric.device(cable.nic)
    guid = f"guid {nic.guid}" if nic.guid else ""
    local = nic.name.removeprefix(f"{cable.host}/")
    device, also = (nic.listed_as, local) if nic.listed_as else (nic.interface or local, "")
    more = f" ({', '.join(filter(None, (also, guid)))})" if also or guid else ""
    return f"{at_port(fabric, cable.leaf, cable.nic)} – host {cable.host} device {device}{more}"


def _agreeing(rails: Rails, stray: Stray) -> str:
    """How the other hosts plug the same device in."""
    others = [
        rails.of_leaf.get(cable.leaf) == stray.rail
        for host, own in rails.hosts.items()
        if host != stray.cable.host
        for cable in own.get(stray.rail, ())
    ]
    return f"as on {sum(others)} of {len(others)} other hosts"


def _move(fabric: Fabric, stray: Stray) -> str:
    cable = stray.cable
    target = stray.belongs_to or "its rail's leaf"
    return f"{cable.nic} from {at_port(fabric, cable.leaf, cable.nic)} to {target}"


def hosts_missing_a_rail(fabric: Fabric) -> list[Finding]:
    """Hosts without a port on a rail whose leaf their neighbours use; one finding a leaf.

    Not where that leaf holds ports without a host: one of them may be the host's.
    """
    rails = infer_rails(fabric)
    unnamed = {link.dst for nic in _without_host(fabric) for link in fabric.links_from(nic.name)}
    elsewhere = {host for host, *_ in misplaced(fabric)}  # found, and told by host_on_spine
    missing: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
    for host, own in rails.hosts.items():
        group = rails.group_of_host.get(host)
        for rail in range(rails.count):
            leaf = None if group is None else rails.leaf_of(group, rail)
            if (
                rail not in own
                and leaf is not None
                and leaf not in unnamed
                and host not in elsewhere
            ):
                missing[rail, leaf].append(host)
    return [
        Finding(
            "host_missing_a_rail",
            Severity.WARNING,
            (f"no port on {rail_said(rails, rail)}, {leaf}: {_listed(hosts)}",),
            "check that port's cable and adapter on the host (ibstat), then the leaf's port",
        )
        for (rail, leaf), hosts in missing.items()
    ]


def _listed(hosts: Sequence[str]) -> str:
    ordered = sorted(hosts, key=natural)
    more = len(ordered) - _SHOWN_HOSTS
    return fold_hosts(ordered[:_SHOWN_HOSTS]) + (f" and {more} more" if more > 0 else "")


def ports_without_host(fabric: Fabric) -> list[Finding]:
    """Adapters whose description names no host: they cannot be counted to a host or checked against it."""
    found = _without_host(fabric)
    if not found:
        return []
    on_leaf: defaultdict[str, int] = defaultdict(int)
    for nic in found:
        for link in fabric.links_from(nic.name):
            on_leaf[link.dst] += 1
    where = ", ".join(f"{leaf} {count}" for leaf, count in list(on_leaf.items())[:_SHOWN])
    more = len(on_leaf) - _SHOWN
    return [
        Finding(
            "ports_without_host",
            Severity.WARNING,
            (
                f"{len(found)} adapters do not say whose they are",
                f"on {where}" + (f" and {more} more switches" if more > 0 else ""),
            ),
            "start rdma-ndd on those hosts, or write <hostname> %d to each adapter's node_desc",
        )
    ]


def _without_host(fabric: Fabric) -> list[Device]:
    return [d for d in fabric.network_devices if d.kind == "nic" and d.role != "aggregation"]


def storage_among_compute(fabric: Fabric) -> list[Finding]:
    """Storage hosts on leaves that mainly hold compute hosts of a network with rails."""
    of_leaf: defaultdict[str, list[str]] = defaultdict(list)
    leaves = infer_rails(fabric).of_leaf
    for nic in storage_nics(fabric):
        for link in fabric.links_from(nic):
            if link.dst in leaves:
                of_leaf[link.dst].append(nic)
    total = {
        leaf: sum(
            fabric.device(link.dst).role in ("compute", "storage")
            for link in fabric.links_from(leaf)
            if fabric.device(link.dst).kind == "nic"
        )
        for leaf in of_leaf
    }
    mixed = {leaf: nics for leaf, nics in of_leaf.items() if 2 * len(nics) < total[leaf]}
    if not mixed:
        return []
    return [
        Finding(
            "storage_among_compute",
            Severity.WARNING,
            tuple(
                f"{leaf}: {', '.join(nics[:6])} beside {total[leaf] - len(nics)} compute ports"
                for leaf, nics in list(mixed.items())[:_SHOWN]
            ),
            "expect storage traffic on these leaves' uplinks, or move storage to its own fabric",
        )
    ]
