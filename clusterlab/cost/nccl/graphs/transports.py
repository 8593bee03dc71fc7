"""What NCCL speaks between nodes: what the NICs are for, and what the user's variables leave of it."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.cost.nccl.graphs.nodes import Node
from clusterlab.cost.nccl.overrides import GraphOverrides
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device
from clusterlab.topology.routing.nics import leading_out, links_out

VERBS = ("ib", "roce")
"""What NCCL's own transport over verbs speaks; NCCL_IB_DISABLE reaches no plugin (efa, tcpxo, …)."""


def transport_of(fabric: Fabric, nodes: Sequence[Node], asked: GraphOverrides) -> str:
    """What NCCL speaks over the NICs: sockets where the user takes the rest away."""
    own = own_transport(fabric, nodes)
    if asked.net == "socket" or (asked.ib_disable and own in VERBS):
        return "tcp"
    return own


def own_transport(fabric: Fabric, nodes: Sequence[Node]) -> str:
    """What the NICs say they speak, else the class of their cables: ib, or roce for ethernet."""
    for node in nodes:
        for nic in _compute_nics(fabric, node):
            if nic.transport is not None:
                return nic.transport
            for link in links_out(fabric, nic.name):
                return _spoken(nic, link.link_class)
    return "ib"


def _compute_nics(fabric: Fabric, node: Node) -> list[Device]:
    """The NICs of a node that carry its ranks' traffic."""
    live = [fabric.device(n) for host in node.hosts for n in leading_out(fabric, host)]
    return [d for d in live if d.role in (None, "compute")] or live


def _spoken(nic: Device, link_class: str) -> str:
    if link_class == "ethernet":
        return "tcp" if (nic.model or "").lower() in ("veth", "virtio", "virtio-net") else "roce"
    return "ib"
