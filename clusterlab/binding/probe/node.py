"""The first layer of visibility: which GPUs the node has, whatever this process may do with them.

Asked in this order, each adding what the others do not show: the PCI bus in /sys and the NVIDIA driver
in /proc (neither knows a device cgroup), NVML and AMD's kfd (names, UUIDs); and only where none of them
shows a GPU, gres.conf, which names the device files that Slurm hands out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.binding.records import MigSlice
from clusterlab.core.errors import UsageError
from clusterlab.formats.slurm_files import gres_gpus
from clusterlab.topology.discover.amd import read_kfd
from clusterlab.topology.discover.facts import GpuFact
from clusterlab.topology.discover.nvml import NvmlAbsentError
from clusterlab.topology.discover.pci import BUS_ID, bus_order, of_classes, read_pci
from clusterlab.topology.discover.sysfs import entries, read_text
from clusterlab.topology.host import numa_domains, parse_cpu_list

_NVIDIA, _AMD = 0x10DE, 0x1002
_DISPLAYS = (0x0300, 0x0302)
_AMD_CLASSES = (0x0380, 0x1200)
_LINE = re.compile(r"^([A-Za-z][A-Za-z ]*?)\s*:\s*(.*)$", re.MULTILINE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class NodeGpu:
    """A GPU of the node. ``key`` is its PCI address, or its device file's name where only that is known.

    ``file`` is the device file to open; None: not known. ``numa`` -1: the firmware does not tell.
    ``mig``: it is cut. ``shown``: NVML or kfd shows it to this process; None: they could not be asked.
    """

    key: str
    vendor: str = "nvidia"
    uuid: str | None = None
    model: str | None = None
    numa: int | None = None
    file: str | None = None
    mig: bool = False
    shown: bool | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """The node's GPUs in PCI order, its NUMA domains with their CPUs, and MIG instances."""

    gpus: tuple[NodeGpu, ...]
    domains: Mapping[int, frozenset[int]]
    mig: tuple[MigSlice, ...] = ()


AskNvml = Callable[[], tuple[Sequence[GpuFact], Sequence[tuple[str, str]]]]
"""What NVML shows: GPUs, and (MIG UUID, bus id of its GPU) pairs. Raises NvmlAbsentError."""


def view_node(
    notes: list[str],
    *,
    nvml: AskNvml,
    sys: Path = Path("/sys"),
    proc: Path = Path("/proc"),
    dev: Path = Path("/dev"),
    gres_conf: Path | None = None,
    node_name: str = "",
) -> NodeView:
    """Look at the node's GPUs; what cannot be seen is said in ``notes``."""
    domains = {d.index: frozenset(d.cores) for d in numa_domains(sys)}
    found = {b: NodeGpu(b) for b in of_classes(sys, _NVIDIA, _DISPLAYS)}
    found |= {b: NodeGpu(b, "amd") for b in of_classes(sys, _AMD, _AMD_CLASSES)}
    for gpu in _driver_gpus(proc, dev):
        found[gpu.key] = gpu
    slices = _add_nvml(found, nvml, notes)
    for fact in read_kfd(sys)[0]:
        known = found.get(fact.bus_id, NodeGpu(fact.bus_id, "amd"))
        found[fact.bus_id] = replace(
            known, vendor="amd", uuid=fact.uuid, model=fact.name, shown=True
        )
    if found:
        order = sorted(found, key=bus_order)
        gpus = tuple(replace(found[b], numa=_numa(sys, b)) for b in order)
        index = {b: i for i, b in enumerate(order)}
        mig = tuple(MigSlice(uuid, index.get(bus_id)) for uuid, bus_id in slices)
        return NodeView(gpus, domains, mig)
    declared, cores = _declared(gres_conf, node_name, notes)
    if declared:
        notes.append("GPUs as gres.conf declares them: neither /sys, /proc nor NVML shows one")
    return NodeView(declared, cores or domains)


def _driver_gpus(proc: Path, dev: Path) -> list[NodeGpu]:
    """What /proc/driver/nvidia/gpus tells: model, UUID (once the GPU was in use) and device minor."""
    found = []
    for folder in entries(proc / "driver/nvidia/gpus"):
        if not BUS_ID.fullmatch(folder.name):
            continue
        told = dict(_LINE.findall(read_text(folder / "information") or ""))
        uuid, minor = told.get("GPU UUID", "").strip(), told.get("Device Minor", "").strip()
        found.append(
            NodeGpu(
                folder.name,
                uuid=uuid if _UUID.fullmatch(uuid) else None,
                model=told.get("Model", "").strip() or None,
                file=str(dev / f"nvidia{minor}") if minor.isascii() and minor.isdigit() else None,
            )
        )
    return found


def _add_nvml(
    found: dict[str, NodeGpu], nvml: AskNvml, notes: list[str]
) -> Sequence[tuple[str, str]]:
    """Add what NVML shows to ``found``; (MIG UUID, bus id) of the instances."""
    try:
        shown, slices = nvml()
    except NvmlAbsentError as error:
        notes.append(f"NVML not available: {error}")
        return ()
    for bus_id, gpu in list(found.items()):
        if gpu.vendor == "nvidia":
            found[bus_id] = replace(gpu, shown=False)
    for fact in shown:
        known = found.get(fact.bus_id, NodeGpu(fact.bus_id))
        found[fact.bus_id] = replace(
            known,
            uuid=fact.uuid or known.uuid,
            model=fact.name or known.model,
            mig=fact.mig,
            shown=True,
        )
    return slices


def _numa(sys: Path, bus_id: str) -> int | None:
    """The kernel's word, -1 included; None where /sys has no such device."""
    fact = read_pci(sys, bus_id)
    if fact.numa is not None:
        return fact.numa
    return -1 if read_text(sys / "bus/pci/devices" / bus_id / "numa_node") == "-1" else None


def _declared(
    gres_conf: Path | None, node_name: str, notes: list[str]
) -> tuple[tuple[NodeGpu, ...], dict[int, frozenset[int]]]:
    """The GPUs of gres.conf, with the sets of cores it gives them as domains."""
    text = read_text(gres_conf) if gres_conf else None
    if text is None:
        return (), {}
    try:
        declared = gres_gpus(text, node_name, file=str(gres_conf))
    except UsageError as error:
        notes.append(str(error))
        return (), {}
    lists = list(dict.fromkeys(gpu.cores for gpu in declared if gpu.cores))
    domains = {i: frozenset(parse_cpu_list(text)) for i, text in enumerate(lists)}
    gpus = tuple(
        NodeGpu(
            Path(gpu.file).name,
            model=gpu.type,
            numa=lists.index(gpu.cores) if gpu.cores else None,
            file=gpu.file,
        )
        for gpu in declared
    )
    return gpus, domains
