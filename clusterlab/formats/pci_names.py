"""PCI ids of the GPUs and NICs of GPU clusters, and what follows from a GPU's name.

Names and ids: pci.ids (github.com/pciutils/pciids, 2026), in the form this project's designs use.
"""

from __future__ import annotations

import re
from typing import TypeVar

_NVIDIA, _AMD, _MELLANOX, _AMAZON, _CRAY = "0x10de", "0x1002", "0x15b3", "0x1d0f", "0x17db"

_NAMES = {
    (_NVIDIA, "0x1db1"): "V100-SXM2-16GB",
    (_NVIDIA, "0x1db4"): "V100-PCIe-16GB",
    (_NVIDIA, "0x1db5"): "V100-SXM2-32GB",
    (_NVIDIA, "0x1db6"): "V100-PCIe-32GB",
    (_NVIDIA, "0x1db8"): "V100-SXM3-32GB",
    (_NVIDIA, "0x1eb8"): "T4",
    (_NVIDIA, "0x20b0"): "A100-SXM4-40GB",
    (_NVIDIA, "0x20b2"): "A100-SXM4-80GB",
    (_NVIDIA, "0x20b5"): "A100-PCIe-80GB",
    (_NVIDIA, "0x20f1"): "A100-PCIe-40GB",
    (_NVIDIA, "0x20f3"): "A800-SXM4-80GB",
    (_NVIDIA, "0x20f5"): "A800-PCIe-80GB",
    (_NVIDIA, "0x2235"): "A40",
    (_NVIDIA, "0x2236"): "A10",
    (_NVIDIA, "0x2321"): "H100-NVL-94GB",
    (_NVIDIA, "0x2324"): "H800",
    (_NVIDIA, "0x2329"): "H20",
    (_NVIDIA, "0x2330"): "H100-SXM5-80GB",
    (_NVIDIA, "0x2331"): "H100-PCIe-80GB",
    (_NVIDIA, "0x2335"): "H200-SXM5-141GB",
    (_NVIDIA, "0x233b"): "H200-NVL-141GB",
    (_NVIDIA, "0x2342"): "GH200",
    (_NVIDIA, "0x26b5"): "L40",
    (_NVIDIA, "0x26b9"): "L40S",
    (_NVIDIA, "0x27b8"): "L4",
    (_NVIDIA, "0x2901"): "B200",
    (_NVIDIA, "0x2941"): "GB200",
    (_NVIDIA, "0x3182"): "B300",
    (_NVIDIA, "0x31c2"): "GB300",
    (_AMD, "0x66a1"): "MI50",
    (_AMD, "0x738c"): "MI100",
    (_AMD, "0x7408"): "MI250X",
    (_AMD, "0x740c"): "MI250",
    (_AMD, "0x740f"): "MI210",
    (_AMD, "0x74a0"): "MI300A",
    (_AMD, "0x74a1"): "MI300X",
    (_AMD, "0x74a5"): "MI325X",
    (_MELLANOX, "0x1017"): "ConnectX-5",
    (_MELLANOX, "0x1019"): "ConnectX-5-Ex",
    (_MELLANOX, "0x101b"): "ConnectX-6",
    (_MELLANOX, "0x101d"): "ConnectX-6-Dx",
    (_MELLANOX, "0x1021"): "ConnectX-7",
    (_MELLANOX, "0x1023"): "ConnectX-8",
    (_MELLANOX, "0xa2dc"): "BlueField-3",
    (_AMAZON, "0xefa0"): "EFA",
    (_CRAY, "0x0501"): "Slingshot-200",
}

V = TypeVar("V")

_IDS = {name: ids for ids, name in _NAMES.items()}

# CUDA's table of compute capabilities (times 10), by chip.
_CAPABILITIES = (
    (r"P100", 60),
    (r"V100", 70),
    (r"T4|Quadro RTX \d000|TITAN RTX|RTX 20\d0", 75),
    (r"A100|A800|A30", 80),
    (r"A10|A10G|A16|A40|RTX A\d000|RTX 30\d0", 86),
    (r"L4|L20|L40|L40S|RTX \d000 Ada|RTX 40\d0", 89),
    (r"H20|H100|H200|H800|GH200", 90),
    (r"B100|B200|GB200", 100),
    (r"B300|GB300", 103),
    (r"RTX PRO \d000|RTX 50\d0", 120),
    (r"GB10", 121),
)
# LLVM's AMDGPU processors.
_ARCHITECTURES = (
    (r"MI50|MI60", "gfx906"),
    (r"MI100", "gfx908"),
    (r"MI200|MI210|MI250X?", "gfx90a"),
    (r"MI300[AX]|MI325X", "gfx942"),
    (r"MI350X|MI355X", "gfx950"),
)


def model_of(vendor: str | None, device: str | None) -> str | None:
    """The model of a PCI vendor and device id (``0x10de``, ``0x2330``); None: not listed."""
    return _NAMES.get(((vendor or "").lower(), (device or "").lower()))


def ids_of(model: str) -> tuple[str, str] | None:
    """The vendor and device id of a model named exactly as in the list."""
    return _IDS.get(model)


def compute_capability(model: str) -> int | None:
    """90 for ``H100-SXM5-80GB``, ``h100_sxm``, ``NVIDIA H200`` and ``sm_90``; None: no NVIDIA GPU known by
    that name.
    """
    named = re.fullmatch(r"sm_([0-9]{2,3})", model)
    return int(named.group(1)) if named else _first(_CAPABILITIES, model)


def amd_architecture(model: str) -> str | None:
    """``gfx942`` for ``AMD Instinct MI300X`` and for ``gfx942``; None: no AMD GPU known by that name."""
    return model if re.fullmatch(r"gfx[0-9a-f]{3,4}", model) else _first(_ARCHITECTURES, model)


def gpu_chips() -> tuple[str, ...]:
    """The chips whose names the two functions above know (``H100``, ``MI210``), for messages."""
    every = [
        chip
        for table in (_CAPABILITIES, _ARCHITECTURES)
        for chips, _ in table
        for chip in chips.split("|")
    ]
    return tuple(chip for chip in every if chip.isalnum())


def _first(table: tuple[tuple[str, V], ...], model: str) -> V | None:
    for chips, value in table:
        if re.search(rf"(?<![A-Za-z0-9])(?:{chips})(?![A-Za-z0-9])", model, re.IGNORECASE):
            return value
    return None
