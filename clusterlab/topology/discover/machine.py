"""The one impure part: look at this machine. What cannot be seen is said in the notes, never guessed."""

from __future__ import annotations

import platform
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from clusterlab.topology.discover.amd import read_kfd
from clusterlab.topology.discover.facts import CpuFact, GpuFact, MachineFacts, PciFact
from clusterlab.topology.discover.nics import Addresses, interface_addresses, read_nics
from clusterlab.topology.discover.nvml import Nvml, NvmlAbsentError, NvmlView, read_view
from clusterlab.topology.discover.pci import bus_order, of_classes, with_bridges
from clusterlab.topology.discover.sysfs import read_name, read_text
from clusterlab.topology.host import cpu_model, kernel, numa_domains

SYS = Path("/sys")
CPUINFO = Path("/proc/cpuinfo")
_CPU_LINE = re.compile(r"^(vendor_id|cpu family|model)[ \t]*:[ \t]*(\S+)$", re.MULTILINE)
_NCCL_ARCHS = {"aarch64": "arm64", "ppc64le": "ppc64"}

_NVIDIA, _AMD = 0x10DE, 0x1002
_DISPLAYS = (0x0300, 0x0302)  # VGA, 3D controller
_AMD_CLASSES = (*_DISPLAYS, 0x0380, 0x1200)  # MI200 is a display controller, MI300 an accelerator


def read_machine(
    host: str | None = None,
    *,
    sys: Path = SYS,
    nvml: Nvml | None = None,
    addresses: Addresses | None = interface_addresses,
    cpuinfo: Path = CPUINFO,
) -> MachineFacts:
    """All that /sys and NVML say of this machine's topology.

    ``host`` is the name the launcher knows it by (default: its own). ``nvml`` stands for the library,
    ``addresses`` for the interfaces' addresses: both are this machine's unless a test gives others.
    """
    notes: list[str] = []
    domains = numa_domains(sys)
    if not domains:
        notes.append(f"{sys}/devices/system/node names no NUMA domain with cores")
    view = _nvml(nvml, notes)
    kfd, xgmi = read_kfd(sys)
    gpus = _gpus(sys, view, kfd, notes)
    nics = read_nics(sys, notes, addresses)
    pci = with_bridges(sys, [*(g.bus_id for g in gpus), *(n.bus_id for n in nics if n.bus_id)])
    notes += _blind_spots(gpus, pci)
    return MachineFacts(
        host or socket.gethostname() or "localhost",
        cpu=read_cpu(cpuinfo),
        kernel=kernel(),
        driver=view.driver or read_name(sys / "module/nvidia/version"),
        domains=domains,
        pci=pci,
        gpus=gpus,
        nics=nics,
        xgmi=xgmi,
        levels=view.levels,
        notes=tuple(notes),
    )


def read_cpu(cpuinfo: Path) -> CpuFact:
    """What kind of CPU this machine has."""
    # the first core's lines win: the last may be cut off
    told = dict(reversed(_CPU_LINE.findall(read_text(cpuinfo) or "")))
    family, model = (
        int(text) if (text := told.get(key, "")).isascii() and text.isdigit() else None
        for key in ("cpu family", "model")
    )
    arch = platform.machine()
    return CpuFact(
        cpu_model(cpuinfo), _NCCL_ARCHS.get(arch, arch), told.get("vendor_id"), family, model
    )


def _nvml(nvml: Nvml | None, notes: list[str]) -> NvmlView:
    try:
        view = read_view(nvml)
    except NvmlAbsentError as error:
        notes.append(f"NVML not available, NVLink and GPU names are not known: {error}")
        return NvmlView(())
    notes += view.notes
    return view


def _gpus(
    sys: Path, view: NvmlView, kfd: Iterable[GpuFact], notes: list[str]
) -> tuple[GpuFact, ...]:
    """What the drivers show, and what only the PCI bus shows, in bus order."""
    found = {gpu.bus_id: gpu for gpu in (*view.gpus, *kfd)}
    on_bus = [GpuFact(bus_id, "nvidia") for bus_id in of_classes(sys, _NVIDIA, _DISPLAYS)]
    on_bus += [GpuFact(bus_id, "amd") for bus_id in of_classes(sys, _AMD, _AMD_CLASSES)]
    for gpu in on_bus:
        if gpu.bus_id not in found:
            found[gpu.bus_id] = gpu
            if view.gpus or gpu.vendor == "amd":
                notes.append(
                    f"GPU {gpu.bus_id} is on the PCI bus, but its driver does not show it"
                    " (a device cgroup, another driver, or it fell out)"
                )
    return tuple(found[bus_id] for bus_id in sorted(found, key=bus_order))


def _blind_spots(gpus: tuple[GpuFact, ...], pci: Iterable[PciFact]) -> list[str]:
    """Devices whose place on the PCI bus /sys does not tell (a container that hides it)."""
    paths = {fact.bus_id: fact.path for fact in pci}
    lost = [gpu.bus_id for gpu in gpus if not paths.get(gpu.bus_id)]
    return [f"/sys does not say where GPUs {', '.join(lost)} are on the PCI bus"] if lost else []
