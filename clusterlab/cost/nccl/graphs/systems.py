"""A node's system, from the fabric: the ranks' GPUs, live NICs as the network plugin shows them, paths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.cost.nccl.communicator import CpuVendor
from clusterlab.cost.nccl.graphs.chips import Chip, nic_GBps
from clusterlab.cost.nccl.graphs.nodes import Node
from clusterlab.cost.nccl.graphs.rates import cables, inside
from clusterlab.cost.nccl.graphs.system import System
from clusterlab.cost.nccl.graphs.transports import VERBS
from clusterlab.cost.nccl.nic_filter import NicFilter
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import SWITCH_KINDS
from clusterlab.topology.routing.host_graph import HostGraph, domain, graph_of
from clusterlab.topology.routing.path_types import Levels

_GENERAL_SPEEDS = 80
"""RCCL searches with NCCL's general list."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides rates and orders on all nodes of a communicator; ``only``: NICs that the user allows."""

    chip: Chip
    cpu: CpuVendor
    transport: str
    levels: Levels
    inter: bool
    only: NicFilter | None = None


def system_of(fabric: Fabric, node: Node, machine: Machine) -> System:
    """The system that NCCL would build on ``node``."""
    capability = machine.chip.capability or _GENERAL_SPEEDS
    names = _devices(fabric, node)
    gpus = frozenset(node.gpus)
    unused = {n for n in names if fabric.device(n).kind == "gpu" and n not in gpus}
    groups = _nic_groups(fabric, node, machine) if machine.inter else {}
    followers = {n for group in groups.values() for n in group[1:]}
    if not machine.inter:
        followers |= {n for n in names if fabric.device(n).kind == "nic"}
    graph = graph_of(
        fabric,
        names,
        without=unused | followers,
        rate=inside(capability, machine.cpu, machine.chip.name),
        net_rate=cables(fabric),
    )
    whole = graph_of(fabric, sorted(followers), net_rate=cables(fabric)) if groups else None
    for leader, group in groups.items():
        if leader in graph.net_bw and whole is not None:
            live = [n for n in group[1:] if n in whole.leading_out]
            graph.net_bw[leader] += sum(whole.net_bw[n] for n in live)
    for nic, rate in graph.net_bw.items():
        if math.isinf(rate):  # no cable of it is described: it carries what its model does
            graph.net_bw[nic] = nic_GBps(fabric.device(nic).model)
    return System(
        graph=graph,
        gpus=node.gpus,
        nics=_nics(fabric, graph, machine) if machine.inter else [],
        inter=machine.inter,
        capability=capability,
        intel=machine.cpu == "intel",
        amd=machine.cpu == "amd",
        levels=machine.levels,
        multicast=any((d := fabric.device(n)).kind == "nvswitch" and d.in_network for n in names),
        xgmi=any(k.link_class == "xgmi" for k in fabric.links_from(node.gpus[0])),
    )


def _nics(fabric: Fabric, graph: HostGraph, machine: Machine) -> list[str]:
    """The NICs that NCCL uses: those of NCCL_IB_HCA where it names any, else those for ranks' traffic."""
    live = [n for n in graph.of_kind("nic") if n in graph.leading_out]
    if machine.only is not None and machine.transport in VERBS:
        named = [n for n in live if machine.only.allows(fabric.device(n))]
        if named:
            return named
    return [n for n in live if fabric.device(n).role in (None, "compute")] or live


def _devices(fabric: Fabric, node: Node) -> list[str]:
    """The node's hosts' devices, and the NVSwitches that join them."""
    found = dict.fromkeys(d.name for host in node.hosts for d in fabric.on_host(host))
    hosts = set(node.hosts)
    for name in domain(fabric, node.hosts[0]):
        device = fabric.device(name)
        if (device.host is None and device.kind not in SWITCH_KINDS) or device.host in hosts:
            found[name] = None
    return list(found)


def _nic_groups(fabric: Fabric, node: Node, machine: Machine) -> dict[str, Sequence[str]]:
    """NICs that the EFA plugin shows as one: those beside the same PCIe device, where a host has several
    for each GPU (aws-ofi-nccl, src/nccl_ofi_topo.cpp). First NIC → all of the group.
    """
    if machine.transport != "efa":
        return {}
    groups: dict[str, Sequence[str]] = {}
    for host in node.hosts:
        nics = [d.name for d in fabric.on_host(host, "nic")]
        if len(nics) <= len(fabric.on_host(host, "gpu")):
            continue
        beside: dict[object, list[str]] = {}
        for nic in nics:
            near = frozenset(k.dst for k in fabric.links_from(nic) if k.link_class == "pcie")
            beside.setdefault(near or nic, []).append(nic)
        groups |= {group[0]: group for group in beside.values() if len(group) > 1}
    return groups
