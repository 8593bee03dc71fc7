"""What is odd in an NCCL topology file: collected while it is read, told as findings at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.nccl_tables import gigatransfers, nccl_reads_as_GTps, pcie_rate
from clusterlab.formats.nccl_xml import NcclNet, NcclPci, stated_rate

FASTEST_Mbps = 3_200_000
"""Twice the fastest port announced (1.6 Tb/s): above it a speed is in another unit than Mb/s."""
GIGABITS = frozenset({10, 25, 40, 50, 100, 200, 400, 800, 1600})
"""Speeds of ports in Gb/s: as Mb/s no port of a GPU host has them."""

_GPU_LANES = 16
_FRONT_END = 4  # a port this many times slower than the fastest is no compute port
_SHOWN = 16

_RULES: dict[str, tuple[Severity, str]] = {
    "nccl_reader_refuses": (
        Severity.WARNING,
        "NCCL's own reader stops at or passes over this: take it out before NCCL_TOPO_FILE names the file",
    ),
    "rccl_topology": (
        Severity.INFO,
        'nothing to do for RCCL; NCCL needs version="1"',
    ),
    "filled_in_by_nccl": (
        Severity.INFO,
        "a static file leaves these to NCCL; for links and ports dump one with NCCL_TOPO_DUMP_FILE",
    ),
    "duplicate_bus_id": (
        Severity.WARNING,
        "give every PCI device its own bus id (lspci -D): NCCL attaches a GPU or NIC to the first match",
    ),
    "numa_unknown": (
        Severity.WARNING,
        "a VM or firmware hides the NUMA domain: NCCL cannot tell near CPUs and NICs from far ones",
    ),
    "pcie_rate_unknown": (
        Severity.WARNING,
        "write link_speed and link_width as /sys/bus/pci/devices/<bus id>/max_link_* has them",
    ),
    "pcie_speed_misread": (
        Severity.WARNING,
        'spell it as the kernel does: "16.0 GT/s PCIe"; NCCL compares the beginning of the text',
    ),
    "pcie_half_width": (
        Severity.WARNING,
        "reseat the GPU or look at the slot and riser (lspci -vv, LnkSta): half the lanes, half the rate",
    ),
    "pcie_uplink_slow": (
        Severity.WARNING,
        "check the switch's uplink (lspci -vv): NCCL takes this rate for everything that leaves the switch",
    ),
    "nic_above_pcie": (
        Severity.WARNING,
        "check the NIC's slot (lspci -vv, LnkSta): the port is faster than the slot behind it",
    ),
    "net_speed_unit_slip": (
        Severity.ERROR,
        "speed is in Mb/s: 400000 for 400 Gb/s; the rate is kept as unknown",
    ),
    "net_speed_missing": (
        Severity.WARNING,
        "write speed in Mb/s: without it NCCL counts 10 Gb/s if the network plugin does not say",
    ),
    "front_end_port": (
        Severity.INFO,
        "keep NCCL off it with NCCL_IB_HCA or NCCL_SOCKET_IFNAME if it is not meant for collectives",
    ),
    "ports_share_pcie": (
        Severity.INFO,
        "the ports share one slot: together they carry what the slot carries",
    ),
    "pci_below_an_end_device": (
        Severity.WARNING,
        "NCCL looks below switches (class 0x060400) only: correct the class",
    ),
    "nvlink_target_unknown": (
        Severity.WARNING,
        "the links are left out, as NCCL leaves them out: dump the file with all GPUs visible",
    ),
    "nvlink_one_sided": (
        Severity.WARNING,
        "both ends should list the same links: one may be down (nvidia-smi nvlink -s)",
    ),
}


class Evidence:
    """Lines of evidence by finding code, in the order of first mention."""

    def __init__(self) -> None:
        self._lines: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, code: str, line: str) -> None:
        """Note ``line`` under ``code``, one of this module's rules."""
        self._lines[code].append(line)

    def look_at_pcie(self, name: str, pci: NcclPci) -> None:
        """Note a PCIe speed or width that is missing, or that NCCL would read as another."""
        text, width = pci.link_speed, pci.link_width
        if text is None and width is None:
            return  # left to NCCL, which reads /sys
        GTps = gigatransfers(text or "")
        read_as = nccl_reads_as_GTps(text or "")
        counted = pcie_rate(read_as, width or 16)
        if GTps is None or not width:
            self.add(
                "pcie_rate_unknown",
                f"{name} ({pci.bus_id}): link_speed {text!r}, link_width {width}; NCCL counts "
                f"{counted.GBps if counted else 0:g} GB/s",
            )
        elif read_as != GTps:
            self.add(
                "pcie_speed_misread",
                f"{name} ({pci.bus_id}): {text!r}, which NCCL reads as {read_as:g} GT/s",
            )

    def findings(self) -> tuple[Finding, ...]:
        """One finding per code."""
        return tuple(self._finding(code, lines) for code, lines in self._lines.items())

    def _finding(self, code: str, lines: list[str]) -> Finding:
        severity, fix = _RULES[code]
        more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
        return Finding(code, severity, evidence=(*lines[:_SHOWN], *more), fix=fix)


def is_speed(speed_Mbps: int | None) -> bool:
    """Whether a speed can be in Mb/s."""
    return speed_Mbps is not None and 0 < speed_Mbps <= FASTEST_Mbps and speed_Mbps not in GIGABITS


def likely_Mbps(name: str, net: NcclNet, evidence: Evidence) -> int | None:
    """A port's speed in Mb/s; None, with the reason noted, where it is absent or in another unit."""
    speed = net.speed_Mbps
    if speed is None or speed <= 0:
        evidence.add("net_speed_missing", f"{name} ({net.name}): speed {speed}")
        return None
    if not is_speed(speed):
        evidence.add(
            "net_speed_unit_slip",
            f"{name} ({net.name}): speed {speed} would be {speed / 8000:g} GB/s",
        )
        return None
    return speed


def look_at_gpu_slot(name: str, pci: NcclPci, evidence: Evidence) -> None:
    """Note a GPU that has fewer than its 16 lanes."""
    rate = stated_rate(pci)
    if rate is not None and rate.width < _GPU_LANES:
        evidence.add(
            "pcie_half_width",
            f"{name} ({pci.bus_id}): {rate.width} lanes, {rate.GBps:g} of "
            f"{rate.GBps * _GPU_LANES / rate.width:g} GB/s",
        )


def look_at_uplink(name: str, pci: NcclPci, evidence: Evidence) -> None:
    """Note a switch whose link upwards is slower than one below it."""
    up = stated_rate(pci)
    below = [rate.GBps for child in pci.children if (rate := stated_rate(child)) is not None]
    if up is not None and below and up.GBps < max(below):
        evidence.add(
            "pcie_uplink_slow",
            f"{name} ({pci.bus_id}): {up.GBps:g} GB/s up, {max(below):g} GB/s to a device below",
        )


def look_at_ports(ports: Sequence[tuple[str, NcclNet, NcclPci | None]], evidence: Evidence) -> None:
    """Note ports faster than their slot, and ports far slower than the file's fastest."""
    rates = {name: net.speed_Mbps or 0 for name, net, _ in ports if is_speed(net.speed_Mbps)}
    fastest = max(rates.values(), default=0)
    for name, net, pci in ports:
        Mbps = rates.get(name)
        if Mbps is None:
            continue
        if Mbps * _FRONT_END <= fastest or (pci is None and Mbps < fastest):
            evidence.add(
                "front_end_port",
                f"{name} ({net.name}): {Mbps / 1000:g} Gb/s beside {fastest / 1000:g} Gb/s",
            )
        slot = stated_rate(pci) if pci is not None else None
        if slot is not None and Mbps / 8000 > slot.wire_GBps:
            evidence.add(
                "nic_above_pcie",
                f"{name} ({net.name}): {Mbps / 8000:g} GB/s port, {slot.wire_GBps:g} GB/s slot",
            )
