"""What NCCL counts a link for, in GB/s, where the fabric says it and where it does not.

A rate that no source gives becomes NCCL's own figure for that kind of link, never no limit.
"""

from __future__ import annotations

from collections.abc import Callable

from clusterlab.cost.nccl.communicator import CpuVendor
from clusterlab.cost.nccl.graphs.chips import cpu_link_GBps, nic_GBps
from clusterlab.formats.nccl_tables import nvlink_GBps
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link

_PCIE_GBPS = 12.0
"""Gen3 x16, which NCCL takes where the kernel says nothing (ncclTopoGetXmlFromSys)."""
_PCIE_SHARE = 48.0 / 63.0
"""NCCL's figure of a PCIe link to its signalling rate (topo.cc, kvDictPciGen)."""
_C2C_GBPS = 450.0
_XGMI_SHARE = 0.75
_XGMI_GBPS = 36.0
"""RCCL's figure for xGMI before gfx94x (src/graph/topo.h)."""


def inside(capability: int, cpu: CpuVendor, gpu: str) -> Callable[[Link], float]:
    """GB/s of a link inside a node, by what is left of it."""

    def rate(link: Link) -> float:
        one = link.GBps if link.GBps is not None else _assumed(link, capability, cpu, gpu)
        return one * link.multiplicity * link.health

    return rate


def _assumed(link: Link, capability: int, cpu: CpuVendor, gpu: str) -> float:
    wire = link.wire_GBps
    if link.link_class == "nvlink":
        return min(nvlink_GBps(capability), wire) if wire else nvlink_GBps(capability)
    if link.link_class == "xgmi":
        return wire * _XGMI_SHARE if wire else _XGMI_GBPS
    if link.link_class == "pcie":
        return wire * _PCIE_SHARE if wire else _PCIE_GBPS
    if link.link_class == "c2c":
        return wire or _C2C_GBPS
    return wire or cpu_link_GBps(cpu, gpu)


def cables(fabric: Fabric) -> Callable[[Link], float]:
    """GB/s of a NIC's cable: its signalling rate, as NCCL takes the port's speed."""

    def rate(link: Link) -> float:
        one = link.wire_GBps if link.wire_GBps is not None else link.GBps
        if one is None:
            nic = fabric.find(link.src)
            one = nic_GBps(nic.model if nic else None)
        return one * link.multiplicity * link.health

    return rate
