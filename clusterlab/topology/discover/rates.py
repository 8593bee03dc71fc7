"""What links carry for software, by generation: NCCL's tables on what the machine says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.formats import nccl_tables


@dataclass(frozen=True, slots=True)
class Rate:
    """GB/s of one link per direction: for software, and signalled; None: no source says."""

    GBps: float | None = None
    wire_GBps: float | None = None
    GBps_source: str = ""
    wire_source: str = ""


UNKNOWN = Rate()

_GENERATION_GTPS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


def pcie_GTps(generation: int | None) -> float | None:
    """The lane speed of a PCIe generation."""
    return None if generation is None else _GENERATION_GTPS.get(generation)


def pcie_rate(speed_GTps: float | None, lanes: int | None) -> Rate:
    """A PCIe link: 48 GB/s for 32 GT/s and 16 lanes, 63 on the wire."""
    known = nccl_tables.pcie_rate(speed_GTps, lanes) if speed_GTps and lanes else None
    if known is None:
        return UNKNOWN
    link = f"PCIe {speed_GTps:g} GT/s x{lanes}"
    return Rate(
        GBps=known.GBps,
        wire_GBps=known.wire_GBps,
        GBps_source=f"discover: {link}, NCCL topo.cc kvDictPciGen",
        wire_source=f"discover: {link}, line coding taken off",
    )


def nvlink_rate(capability: tuple[int, ...] | None, wire_GBps: float | None) -> Rate:
    """One NVLink of a GPU with this CUDA compute capability; the driver says the wire's rate."""
    usable = None
    if capability is not None and len(capability) == 2:
        usable = nccl_tables.nvlink_GBps(10 * capability[0] + capability[1])
    if usable is not None and wire_GBps is not None:
        usable = min(usable, wire_GBps)
    return Rate(
        GBps=usable,
        wire_GBps=wire_GBps,
        GBps_source="discover: NCCL topo.h, NVLink by compute capability" if usable else "",
        wire_source="discover: NVML NVLink speed" if wire_GBps else "",
    )


def xgmi_rate(target: tuple[int, ...] | None, max_GBps: float | None) -> Rate:
    """An xGMI connection of a GPU of this target (9, 4, 2: gfx942); ``max_GBps`` as kfd says.

    Known for MI300 alone: others have several links between some pairs, and kfd does not count them.
    """
    single = target is not None and target[:2] == (9, 4)
    usable = nccl_tables.xgmi_GBps("gfx94") if single else None
    if usable is not None and max_GBps is not None and max_GBps < usable:
        max_GBps = None  # kfd's figure is no wire rate then
    return Rate(
        GBps=usable,
        wire_GBps=max_GBps,
        GBps_source="discover: RCCL topo.h, xGMI by target" if usable else "",
        wire_source="discover: kfd io_links max_bandwidth" if max_GBps else "",
    )


def between_cpus(arch: str, vendor: str | None, family: int | None, model: int | None) -> Rate:
    """The link between two CPUs of this kind."""
    usable = nccl_tables.inter_cpu_GBps(arch, vendor, family, model)
    kind = f"{vendor or arch} family {family} model {model}" if vendor else arch
    return Rate(usable, None, f"NCCL topo.cc ncclTopoGetInterCpuBw: {kind}") if usable else UNKNOWN


def port_rate(Gbps: float | None) -> Rate:
    """A NIC's port: 50 GB/s for 400 Gb/s."""
    if Gbps is None:
        return UNKNOWN
    source = f"discover: port rate {Gbps:g} Gb/s / 8"
    return Rate(Gbps / 8, Gbps / 8, source, source)
