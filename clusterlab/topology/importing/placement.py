"""Slurm's switches beside the cables: do they say the same, and a node under each host Slurm names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.hostlist import fold_hosts
from clusterlab.topology.fabric import Fabric, device_at_host, link_at_host
from clusterlab.topology.importing.stamp import local_node
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link
from clusterlab.topology.repeated import Group, Repeated

_SHOWN = 8


def disagreements(network: Fabric, placement: Fabric) -> list[Finding]:
    """Hosts that Slurm puts on one leaf though their cables share none."""
    apart = []
    for leaf, hosts in _under(placement).items():
        at = {h: leaves for h in hosts if (leaves := _leaves(network, h))}
        if not at:
            continue
        common = max(at.values(), key=len)
        lonely = [h for h, leaves in at.items() if not leaves & common]
        if lonely:
            apart.append(f"{leaf}: {fold_hosts(lonely)} shares no leaf with the others")
    if not apart:
        return []
    more = [f"… {len(apart)} Slurm switches in all"] if len(apart) > _SHOWN else []
    return [
        Finding(
            code="slurm_topology_disagrees",
            severity=Severity.WARNING,
            evidence=(*apart[:_SHOWN], *more),
            fix="write topology.conf anew: clusterlab topo export FABRIC --to slurm-tree",
        )
    ]


def _under(placement: Fabric) -> dict[str, list[str]]:
    """Slurm's leaf → its hosts."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for host in placement.of_kind("host"):
        for link in placement.links_from(host.name):
            if placement.device(link.dst).kind in SWITCH_KINDS:
                found[link.dst].append(host.name)
    return found


def _leaves(network: Fabric, host: str) -> set[str]:
    if host not in network.hosts:
        return set()
    return {
        link.dst
        for nic in network.on_host(host, "nic")
        if nic.role in (None, "compute")
        for link in network.links_from(nic.name)
        if network.device(link.dst).kind == "leaf"
    }


def on_slurm_switches(node: Fabric, placement: Fabric) -> tuple[Fabric, list[Finding]]:
    """``node`` under every host that Slurm names, its NICs joined to the host's Slurm switch.

    Slurm says who is near whom, not by which cables: these links are of class network, rate unknown.
    """
    inside = local_node(node)
    hosts = [d.name for d in placement.of_kind("host")]
    up = _uplinks(inside.devices)
    links: list[Link] = []
    for link in placement.links:
        for end, other in ((link.src, link.dst), (link.dst, link.src)):
            if placement.device(end).kind == "host":
                at = [f"{end}/{d.name}" for d in up]
                links += [
                    replace(link, src=name, dst=other)
                    if end == link.src
                    else replace(link, src=other, dst=name)
                    for name in at
                ]
                break
        else:
            links.append(link)
    switches = [d for d in placement.devices if d.kind != "host"]
    fabric = Fabric(
        name="merged",
        devices=Repeated([Group(tuple(hosts), inside.devices)], switches, device_at_host),
        links=Repeated([Group(tuple(hosts), inside.links)], links, link_at_host),
        origin=f"{node.origin} + {placement.origin}",
    )
    return fabric, []


def _uplinks(devices: Sequence[Device]) -> list[Device]:
    """What of a node reaches the network: its compute NICs, else its CPUs, else its GPUs."""
    nics = [d for d in devices if d.kind == "nic" and d.role in (None, "compute")]
    cpus = [d for d in devices if d.kind == "cpu"]
    return nics or cpus or [d for d in devices if d.kind == "gpu"]
