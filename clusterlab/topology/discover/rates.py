"""What links carry for software, by generation: NCCL's tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """GB/s of one link per direction: for software, and signalled; None: no source says."""

    GBps: float | None = None
    wire_GBps: float | None = None
    GBps_source: str = ""
    wire_source: str = ""


UNKNOWN = Rate()

# NCCL src/graph/topo.cc, kvDictPciGen: GT/s of a lane → 100 Mb/s of it that software gets
_PCIE_LANE = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}
# 8b/10b coding to generation 2, 128b/130b to 5; 6 and 7 have no coding (flits)
_PCIE_CODING = {2.5: 0.8, 5.0: 0.8, 8.0: 128 / 130, 16.0: 128 / 130, 32.0: 128 / 130, 64.0: 1.0}
_GENERATION_GTPS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

# NCCL src/graph/topo.h, SM*_NVLINK_BW: GB/s a kernel gets of one link, by compute capability
_NVLINK = ((100, 40.1), (90, 20.6), (87, 20.0), (86, 12.0), (80, 20.0), (70, 20.0), (60, 18.0))

# RCCL src/graph/topo.h, GFX94X_XGMI_WIDTH and GFX95X_XGMI_WIDTH. Older GPUs have several links
# between some pairs, and kfd does not count them: unknown.
_XGMI = {(9, 4): 48.0, (9, 5): 48.0}


def pcie_GTps(generation: int | None) -> float | None:
    """The lane speed of a PCIe generation."""
    return None if generation is None else _GENERATION_GTPS.get(generation)


def pcie_rate(speed_GTps: float | None, lanes: int | None) -> Rate:
    """A PCIe link: 48 GB/s for 32 GT/s and 16 lanes, 63 on the wire."""
    if speed_GTps not in _PCIE_LANE or not lanes:
        return UNKNOWN
    link = f"PCIe {speed_GTps:g} GT/s x{lanes}"
    return Rate(
        GBps=_PCIE_LANE[speed_GTps] * lanes / 80,
        wire_GBps=speed_GTps * lanes * _PCIE_CODING[speed_GTps] / 8,
        GBps_source=f"discover: {link}; NCCL kvDictPciGen {_PCIE_LANE[speed_GTps]} x lanes / 80",
        wire_source=f"discover: {link}, coding taken off",
    )


def nvlink_rate(capability: tuple[int, ...] | None, wire_GBps: float | None) -> Rate:
    """One NVLink of a GPU with this CUDA compute capability; the driver says the wire's rate."""
    usable = None
    if capability is not None and len(capability) == 2:
        level = 10 * capability[0] + capability[1]
        usable = next((GBps for least, GBps in _NVLINK if level >= least), None)
    if usable is not None and wire_GBps is not None:
        usable = min(usable, wire_GBps)
    return Rate(
        GBps=usable,
        wire_GBps=wire_GBps,
        GBps_source="discover: NCCL topo.h, NVLink by compute capability" if usable else "",
        wire_source="discover: NVML NVLink speed" if wire_GBps else "",
    )


def xgmi_rate(target: tuple[int, ...] | None, max_GBps: float | None) -> Rate:
    """An xGMI connection of a GPU of this target (9, 4, 2); ``max_GBps`` as kfd says."""
    usable = _XGMI.get((target[0], target[1])) if target and len(target) > 1 else None
    if usable is not None and max_GBps is not None and max_GBps < usable:
        max_GBps = None  # kfd's figure is no wire rate then
    return Rate(
        GBps=usable,
        wire_GBps=max_GBps,
        GBps_source="discover: RCCL topo.h, xGMI by target" if usable else "",
        wire_source="discover: kfd io_links max_bandwidth" if max_GBps else "",
    )


def port_rate(Gbps: float | None) -> Rate:
    """A NIC's port: 50 GB/s for 400 Gb/s."""
    if Gbps is None:
        return UNKNOWN
    source = f"discover: port rate {Gbps:g} Gb/s / 8"
    return Rate(Gbps / 8, Gbps / 8, source, source)
