"""Which NICs of a host lead into the network: what NCCL finds there, and why not the others."""

from __future__ import annotations

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link


def leading_out(fabric: Fabric, host: str) -> tuple[str, ...]:
    """The NICs of ``host`` with a live link out of it, in the fabric's order.

    NCCL takes a NIC only while its port is active; one that is not cabled is like one that is down.
    Where no NIC of the host has a link out at all, the fabric says nothing of its network, and all
    count.
    """
    nics = [d.name for d in fabric.on_host(host, "nic")]
    links = {nic: links_out(fabric, nic) for nic in nics}
    if not any(links.values()):
        return tuple(nics)
    return tuple(nic for nic in nics if is_live(fabric, nic))


def links_out(fabric: Fabric, device: str) -> list[Link]:
    """The links from ``device`` to what is not on its host, live or not."""
    host = fabric.host_of(device)
    return [k for k in fabric.single_links_from(device) if fabric.host_of(k.dst) != host]


def is_live(fabric: Fabric, device: str) -> bool:
    """Whether a link leads out of the device's host and one leads back."""
    host = fabric.host_of(device)
    return any(k.health > 0 for k in links_out(fabric, device)) and any(
        k.health > 0 and fabric.host_of(k.src) != host for k in fabric.single_links_to(device)
    )


def why_not(fabric: Fabric, device: str) -> str | None:
    """Why ``device`` sends nothing into the network by itself; None where it can."""
    if not links_out(fabric, device):
        return f"{device} is not cabled"
    return None if is_live(fabric, device) else f"{device} has no live link to the network"
