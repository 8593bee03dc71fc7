"""What a GPU's and a CPU's model string says: chip, compute capability, library, vendor. Pure tables."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from clusterlab.cost.nccl.communicator import CpuVendor
from clusterlab.formats.pci_names import amd_architecture, compute_capability
from clusterlab.topology.match import chip_name


@dataclass(frozen=True, slots=True)
class Chip:
    """``capability`` is 90 for sm_90; None for AMD, whose ``library`` is rccl."""

    name: str
    capability: int | None
    library: Literal["nccl", "rccl"] = "nccl"


UNKNOWN_CHIP = "unknown"
"""What a chip is called whose model nobody says."""

_CAPABILITY = {
    "P100": 60,
    "V100": 70,
    "T4": 75,
    "A100": 80,
    "A800": 80,
    "A30": 80,
    "A10": 86,
    "A16": 86,
    "A40": 86,
    "RTX30": 86,
    "RTX A": 86,
    "L4": 89,
    "L20": 89,
    "L40": 89,
    "L40S": 89,
    "RTX40": 89,
    "RTX ADA": 89,
    "H20": 90,
    "H100": 90,
    "H200": 90,
    "H800": 90,
    "GH200": 90,
    "B100": 100,
    "B200": 100,
    "GB200": 100,
    "B300": 103,
    "GB300": 103,
    "RTX PRO": 120,
    "RTX6000D": 120,
    "RTX50": 120,
    "GB10": 121,
}
"""Compute capabilities by chip: NVIDIA's list of CUDA GPUs, developer.nvidia.com/cuda-gpus."""

_AMD = {"gfx90a": "MI250X", "gfx942": "MI300X", "gfx950": "MI355X"}

_OTHERS = (
    (re.compile(r"(?i)RTX[ -]?PRO"), "RTX PRO"),
    (re.compile(r"(?i)RTX[ -]?6000D"), "RTX6000D"),
    (re.compile(r"(?i)RTX[ -]?\d000 Ada"), "RTX ADA"),
    (re.compile(r"(?i)RTX[ -]?A\d000"), "RTX A"),
    (re.compile(r"(?i)RTX[ -]?30\d0"), "RTX30"),
    (re.compile(r"(?i)RTX[ -]?40\d0"), "RTX40"),
    (re.compile(r"(?i)RTX[ -]?50\d0"), "RTX50"),
    (re.compile(r"\bGB10\b"), "GB10"),
    (re.compile(r"\bP100\b"), "P100"),
    (re.compile(r"\bT4\b"), "T4"),
    (re.compile(r"\bL4\b"), "L4"),
)

_BY_NVLINK = ((40.0, 100), (20.5, 90), (19.0, 80), (17.0, 60))
"""GB/s of one NVLink as NCCL counts it → capability of the GPUs that have it (src/graph/topo.h)."""

_FASTEST_NVLINK_GBPS = 53.125
"""The wire rate of one NVLink of the newest generation: a link above it stands for all of a GPU's."""
_BY_ALL_NVLINKS = ((450.0, 100), (300.0, 90), (150.0, 80), (80.0, 70), (0.0, 60))
"""Wire rate of all of a GPU's NVLinks one way (H100, A100, V100, P100: NVIDIA's data sheets) → capability of
the GPUs that have more."""


def chip(model: str | None, nvlink_GBps: float | None = None) -> Chip:
    """The chip of a GPU's model string.

    Where the model names none of the table: by the rate of one of its NVLinks, or of all where a design
    has them as one, else as an A100 (sm_80), whose list of speeds is NCCL's general one.
    """
    text = model or ""
    for gfx, name in _AMD.items():
        if gfx in text:
            return Chip(name, None, "rccl")
    name = next(
        (short for pattern, short in _OTHERS if pattern.search(text)), chip_name(text) or ""
    )
    if name.startswith("MI"):
        return Chip(name, None, "rccl")
    if name in _CAPABILITY:
        return Chip(name, _CAPABILITY[name])
    if amd_architecture(text):
        return Chip(name or text, None, "rccl")
    said = compute_capability(text)  # an import's sm_90
    if said is not None:
        return Chip(name or text, said)
    return Chip(name or text or UNKNOWN_CHIP, _capability_by(nvlink_GBps or 0.0))


def _capability_by(nvlink_GBps: float) -> int:
    if nvlink_GBps > _FASTEST_NVLINK_GBPS:
        return next(cc for least, cc in _BY_ALL_NVLINKS if nvlink_GBps > least)
    return next((cc for least, cc in _BY_NVLINK if nvlink_GBps >= least), 80)


_VENDORS: tuple[tuple[re.Pattern[str], CpuVendor], ...] = (
    (re.compile(r"(?i)xeon|intel|sapphire|emerald|granite"), "intel"),
    (re.compile(r"(?i)epyc|amd|threadripper|milan|genoa|rome\b|turin"), "amd"),
    (re.compile(r"(?i)grace|neoverse|arm|graviton|vera|ampere|axion|kunpeng"), "arm"),
    (re.compile(r"(?i)power\s?\d|ibm"), "power"),
    (re.compile(r"(?i)zhaoxin|kaisheng|yongfeng"), "zhaoxin"),
)
_GRACE = frozenset({"GH200", "GB200", "GB300", "GB10"})
_MOSTLY_AMD = frozenset({"A100", "A800", "MI250X", "MI300X", "MI325X", "MI355X"})


def cpu_vendor(
    models: Iterable[str | None], gpu: str, nics: Iterable[str | None] = ()
) -> CpuVendor:
    """The vendor that a host's CPU models name.

    Where they name none, the platform's usual one: Grace (arm) beside GH200, GB200, GB300 and GB10; AMD
    beside A100 (DGX and HGX A100, ND A100 v4) and MI; AMD on p5 (H100 with EFAv2); Intel elsewhere.
    """
    for model in models:
        for pattern, vendor in _VENDORS:
            if model and pattern.search(model):
                return vendor
    if gpu in _GRACE:
        return "arm"
    cards = set(nics)
    if "EFAv1" in cards:  # p4d, p4de: Cascade Lake
        return "intel"
    return "amd" if gpu in _MOSTLY_AMD or "EFAv2" in cards else "intel"


def cpu_link_GBps(vendor: CpuVendor, gpu: str) -> float:
    """NCCL's figure for the link between CPUs of whose rate nothing is known (ncclTopoGetInterCpuBw).

    Intel: Skylake's beside GPUs up to sm_80, Sapphire Rapids' beside newer ones.
    """
    old = (_CAPABILITY.get(gpu) or 90) < 89
    rates = {"intel": 10.0 if old else 22.0, "amd": 16.0, "arm": 6.0, "power": 32.0, "zhaoxin": 6.0}
    return rates.get(vendor, 6.0)


_NIC_GBPS = (
    (re.compile(r"(?i)EFAv?[12]\b"), 12.5),
    (re.compile(r"(?i)EFAv?3"), 25.0),
    (re.compile(r"(?i)EFAv?4"), 50.0),
    (re.compile(r"(?i)connectx-?5"), 12.5),
    (re.compile(r"(?i)connectx-?6"), 25.0),
    (re.compile(r"(?i)connectx-?7|bluefield-?3|thor-?2|pollara"), 50.0),
    (re.compile(r"(?i)connectx-?8"), 100.0),
    (re.compile(r"(?i)slingshot-?11|cassini"), 25.0),
)
UNKNOWN_NIC_GBPS = 1.25
"""What NCCL takes a NIC for whose speed it cannot read: 10 Gb/s (ncclTopoGetXmlFromNet, topo.cc)."""


def nic_GBps(model: str | None) -> float:
    """The rate of a NIC's model per port, for cables of whose rate nothing is known."""
    return next((r for pattern, r in _NIC_GBPS if pattern.search(model or "")), UNKNOWN_NIC_GBPS)
