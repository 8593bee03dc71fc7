"""NCCL's own constants for links: what it counts for PCIe, NVLink, xGMI and between CPUs.

Read in NVIDIA/nccl v2.30.7 src/graph/topo.h and topo.cc, and in ROCm/rccl src/graph/topo.h (2024-10).
GB/s are 1e9 B/s per direction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LANE_RATES = (  # topo.cc kvDictPciGen, × 100 Mb/s a lane; matched as prefixes (xml.h kvConvertToInt)
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
_LANE_RATE_UNREAD = 60  # what NCCL takes for a text that matches none: Gen 3
_BY_GTps = {2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480}
_WIDTHS = (16, 8, 4, 2, 1)
_NEAR = 0.04
_GTps = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?) GT/s")

PORT_SHARE = 0.96
"""Of a port's signalling rate NCCL's channels carry: 48 of 50 GB/s of a 400G port, and so on down its list of
speeds (search.cc); software gets as much (NVIDIA/nccl-tests#290).
"""

LOCAL_GBps = 5000.0
"""topo.h LOC_BW: NCCL's figure for a hop that limits nothing."""


@dataclass(frozen=True, slots=True)
class PcieRate:
    """A PCIe link: ``GBps`` as NCCL's table has it, ``wire_GBps`` after the line code."""

    GTps: float
    width: int
    GBps: float
    wire_GBps: float


def pcie_rate(GTps: float, width: int) -> PcieRate | None:
    """The rates of ``width`` lanes at ``GTps``; None for a speed PCIe does not have."""
    lane = _BY_GTps.get(GTps)
    if lane is None:
        return None
    coding = 0.8 if GTps < 8 else 128 / 130  # 8b/10b before Gen 3
    return PcieRate(GTps, width, width * lane / 80, round(GTps * width * coding / 8, 2))


def gigatransfers(link_speed: str) -> float | None:
    """``16.0 GT/s PCIe`` and ``16 GT/s`` are 16; None where no PCIe speed is written."""
    match = _GTps.match(link_speed)
    GTps = float(match.group(1)) if match else None
    return GTps if GTps in _BY_GTps else None


def nccl_reads_as_GTps(link_speed: str) -> float:
    """The speed NCCL takes from an attribute's text: by prefix, and 8 GT/s for what it does not know."""
    lane = next(
        (rate for text, rate in _LANE_RATES if link_speed.startswith(text)), _LANE_RATE_UNREAD
    )
    return next(GTps for GTps, rate in _BY_GTps.items() if rate == lane)


def link_speed_text(GTps: float) -> str:
    """How the kernel (5.7 and later) and NCCL write a speed: ``16.0 GT/s PCIe``."""
    return f"{GTps:.1f} GT/s PCIe"


def nearest_pcie(*, GBps: float, wire_GBps: float | None) -> PcieRate | None:
    """The generation and width whose figures are nearest, the wider of equal ones; None: none within 4 %."""
    rates = (rate for g in _BY_GTps for w in _WIDTHS if (rate := pcie_rate(g, w)) is not None)

    def distance(rate: PcieRate) -> float:
        off = abs(rate.GBps / GBps - 1)
        return off if wire_GBps is None else off + abs(rate.wire_GBps / wire_GBps - 1)

    def near(rate: PcieRate) -> bool:
        by_wire = wire_GBps is not None and abs(rate.wire_GBps / wire_GBps - 1) < _NEAR
        return by_wire or abs(rate.GBps / GBps - 1) < _NEAR

    return min((r for r in rates if near(r)), key=lambda r: (distance(r), -r.width), default=None)


def nvlink_GBps(sm: int) -> float:
    """One NVLink of a GPU of compute capability ``sm`` (90: 9.0), topo.h ncclTopoNVLinkBw."""
    if sm == 86:
        return 12.0
    for at_least, GBps in ((100, 40.1), (90, 20.6), (80, 20.0), (70, 20.0), (60, 18.0)):
        if sm >= at_least:
            return GBps
    return 20.0


_NVLINK_WIRE = ((70, 80, 25.0), (80, 86, 25.0), (90, 100, 25.0), (100, 110, 50.0))
"""NVLink 2, 3 and 4 signal 25 GB/s a link and direction (V100 6, A100 12, H100 18 links), NVLink 5 50 GB/s
(B200, GB200 18 links): NVIDIA's data sheets, 300, 600, 900 and 1800 GB/s as the sum of both directions.
"""


def nvlink_wire_GBps(sm: int) -> float | None:
    """What one NVLink of a GPU of compute capability ``sm`` signals each way; None where no source says."""
    return next((GBps for low, high, GBps in _NVLINK_WIRE if low <= sm < high), None)


def xgmi_GBps(gcn: str) -> float:
    """One xGMI link of a GPU of architecture ``gcn`` (gfx942), RCCL's topo.h ncclTopoXGMISpeed."""
    if gcn.startswith("gfx90a"):
        return 36.0
    return 48.0 if gcn.startswith("gfx94") else 24.0


def gcn_name(gcn: str) -> str:
    """``gfx90a`` for the older ``910``; RCCL's archinfo.cc convertGcnArchToGcnArchName."""
    if gcn == "910":
        return "gfx90a"
    return f"gfx{gcn}" if re.fullmatch(r"9[0-9]{2}", gcn) else gcn


def inter_cpu_GBps(
    arch: str | None, vendor: str | None, family: int | None, model: int | None
) -> float | None:
    """What NCCL counts between two CPUs of this kind (topo.cc ncclTopoGetInterCpuBw); None: not known."""
    if arch != "x86_64":
        return {"ppc64": 32.0, "arm64": 6.0}.get(arch or "")
    if vendor == "AuthenticAMD":
        return 16.0
    if vendor in {"CentaurHauls", "  Shanghai  "}:
        return 9.0 if (family, model) == (7, 0x5B) else 6.0
    if vendor != "GenuineIntel" or family is None or model is None:
        return None
    models = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0))  # Emerald and Sapphire Rapids, Skylake
    return next((GBps for first, GBps in models if family == 6 and model >= first), 6.0)
