"""The PCI tree as /sys tells it. ``sys`` is /sys, or a test's copy of one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from clusterlab.topology.discover.facts import PciFact
from clusterlab.topology.discover.sysfs import entries, read_number, read_text, real_path

BUS_ID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) GT/s")
_MOST_LANES = 32  # PCIe's widest; 255 and 63 are how the kernel and devices spell "unknown"


def sysfs_address(bus_id: str) -> str | None:
    """NVML's ``00000000:1B:00.0`` as /sys spells it: ``0000:1b:00.0``; None for what is no address.

    A VM that hides an NVLink's other end shows it as all ones: no device has that number.
    """
    domain, _, rest = bus_id.strip().lower().partition(":")
    try:
        address = f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return None
    return address if BUS_ID.fullmatch(address) else None


def pci_folder(sys: Path, bus_id: str) -> Path:
    """The folder of the PCI function ``bus_id``."""
    return sys / "bus/pci/devices" / bus_id


def pci_path(device: Path) -> tuple[str, ...]:
    """``pci0000:10``, ``0000:10:01.0``, …: the PCI parts of where /sys really keeps a device.

    What hangs below the function (``virtio2``, ``mlx5_core.sf.4``) is left out, and so is what a root
    complex itself hangs on (VMD, Hyper-V). Empty where /sys does not say.
    """
    real = real_path(device)
    parts = real.parts if real else ()
    roots = [i for i, part in enumerate(parts) if _ROOT.fullmatch(part)]
    if not roots:
        return ()
    path = [parts[roots[-1]]]
    for part in parts[roots[-1] + 1 :]:
        if not BUS_ID.fullmatch(part):
            break
        path.append(part)
    return tuple(path) if len(path) > 1 else ()


def bus_id_of(device: Path) -> str | None:
    """The PCI function that a class device's ``device`` link leads to; None: not on PCI."""
    path = pci_path(device)
    return path[-1] if path else None


def read_pci(sys: Path, bus_id: str) -> PciFact:
    """What /sys says of one PCI function; a fact without a path where it says nothing."""
    folder = pci_folder(sys, bus_id)
    numa = read_number(folder / "numa_node")
    width, max_width = (read_number(folder / f"{when}_link_width") for when in ("current", "max"))
    return PciFact(
        bus_id,
        path=pci_path(folder),
        pci_class=read_number(folder / "class"),
        vendor=read_number(folder / "vendor"),
        numa=numa if numa is not None and numa >= 0 else None,  # -1: the firmware does not tell
        speed_GTps=_speed(read_text(folder / "current_link_speed")),
        max_speed_GTps=_speed(read_text(folder / "max_link_speed")),
        width=_lanes(width),
        max_width=_lanes(max_width),
        is_virtual=real_path(folder / "physfn") is not None,
    )


def of_classes(sys: Path, vendor: int, classes: Iterable[int]) -> list[str]:
    """Bus ids, in order, of a vendor's functions whose class and subclass (``0x0302``) are one of these."""
    wanted = set(classes)
    found = []
    for folder in entries(sys / "bus/pci/devices"):
        if not BUS_ID.fullmatch(folder.name) or read_number(folder / "vendor") != vendor:
            continue
        pci_class = read_number(folder / "class")
        if pci_class is not None and pci_class >> 8 in wanted:
            found.append(folder.name)
    return sorted(found, key=bus_order)


def bus_order(bus_id: str) -> tuple[int, str]:
    """Sorts bus ids as the hardware counts them: a domain may have more than four digits."""
    domain, _, rest = bus_id.partition(":")
    return int(domain, 16), rest


def with_bridges(sys: Path, bus_ids: Iterable[str]) -> tuple[PciFact, ...]:
    """The functions and every bridge above them, in bus order."""
    leaves = [read_pci(sys, bus_id) for bus_id in dict.fromkeys(bus_ids)]
    known = {fact.bus_id: fact for fact in leaves}
    for leaf in leaves:
        for bridge in leaf.path[1:-1]:
            if bridge not in known:
                known[bridge] = read_pci(sys, bridge)
    return tuple(known[bus_id] for bus_id in sorted(known, key=bus_order))


def _speed(text: str | None) -> float | None:
    """``16.0 GT/s PCIe`` and the older ``16 GT/s`` are 16; ``Unknown`` is None."""
    match = _SPEED.match(text or "")
    return float(match.group(1)) or None if match else None


def _lanes(number: int | None) -> int | None:
    return number if number is not None and 0 < number <= _MOST_LANES else None
