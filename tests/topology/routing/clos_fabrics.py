"""Leaf-spine-core fabrics of any size for tests and benchmarks of routing."""

from __future__ import annotations

from clusterlab.topology.design.clos import Clos, clos
from clusterlab.topology.design.parts import LinkKind
from clusterlab.topology.fabric import Fabric, equal_hosts
from clusterlab.topology.parts import Device, Link

NDR = LinkKind(
    link_class="ib",
    GBps=48.0,
    wire_GBps=50.0,
    latency_us=None,
    GBps_source="for tests",
    wire_source="for tests",
    latency_source="",
)


def fabric_of(shape: Clos, hosts: int, *, gpus: bool = False) -> Fabric:
    """``hosts`` hosts with one NIC per rail (or one), wired as ``shape`` says."""
    rails = shape.rails or 1
    names = [f"n{i}" for i in range(hosts)]
    local = [Device(f"nic{i}", "nic", rail=i) for i in range(rails)]
    inside: list[Link] = []
    if gpus:
        local += [Device(f"gpu{i}", "gpu", rail=i) for i in range(rails)]
        local += [Device("nvswitch", "nvswitch")]
        for i in range(rails):
            inside += [Link(f"gpu{i}", f"nic{i}", "pcie", 48.0)]
            inside += [Link(f"nic{i}", f"gpu{i}", "pcie", 48.0)]
            inside += [Link(f"gpu{i}", "nvswitch", "nvlink", 20.6, multiplicity=18)]
            inside += [Link("nvswitch", f"gpu{i}", "nvlink", 20.6, multiplicity=18)]
    switches, cables = clos(shape, names, {i: [f"nic{i}"] for i in range(rails)}, where="a test")
    devices, links = equal_hosts(names, local, inside, others=switches, other_links=cables)
    return Fabric("clos", devices, links)


def two_tier(hosts: int = 8, *, rails: int = 2, spines: int = 2, uplinks: int = 4) -> Fabric:
    """Half the hosts per SU, one leaf per rail and SU, every leaf to every spine."""
    kinds = {"leaf": NDR, "spine": NDR}
    shape = Clos(
        hosts_per_su=-(-hosts // 2), rails=rails, spines=spines, uplinks=uplinks, kinds=kinds
    )
    return fabric_of(shape, hosts)


def three_tier(
    hosts: int,
    *,
    rails: int = 8,
    hosts_per_su: int = 32,
    sus_per_pod: int = 8,
    uplinks: int = 32,
    rail_groups: bool = True,
    planes: int = 1,
) -> Fabric:
    """1:1 throughout where ``hosts_per_su`` equals ``uplinks``: as many spines as leaves, half the cores."""
    leaves = -(-hosts // hosts_per_su) * rails * planes
    shape = Clos(
        hosts_per_su=hosts_per_su,
        rails=rails,
        planes=planes,
        spines=leaves,
        cores=leaves // 2,
        uplinks=uplinks,
        core_uplinks=uplinks,
        sus_per_pod=sus_per_pod,
        rail_groups=rail_groups,
        kinds={"leaf": NDR, "spine": NDR, "core": NDR},
    )
    return fabric_of(shape, hosts)
