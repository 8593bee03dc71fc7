"""Reading what the choices need: GPUs, cores, NICs. Nothing is opened, nothing is changed, NVML not asked.

Lighter than the doctor's probe, because every rank waits for it before it starts: NVML's init alone takes
longer than all of this.
"""

# pathlib costs every rank 10 ms at its start.
# ruff: noqa: PTH112, PTH120, PTH123, PTH208
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from clusterlab.binding.exec.scene import Cpus, NearNic, NodeGpu
from clusterlab.core.errors import UsageError
from clusterlab.launch.claims import in_slurm_task, said

_DOMAIN_CPUS = re.compile(r"[0-9]{1,6}(?:-[0-9]{1,6})?(?:,[0-9]{1,6}(?:-[0-9]{1,6})?)*")
_DOMAIN = re.compile(r"node[0-9]{1,4}")
_DEVICE = re.compile(r"nvidia([0-9]{1,4})")
_BUS_ID = re.compile(r"([0-9a-f]{4,8}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_LINE = re.compile(r"^([A-Za-z][A-Za-z ]*?)\s*:\s*(.*?)\s*$", re.MULTILINE)
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOST_BYTES = 64 << 10


class Roots(NamedTuple):
    """Where the kernel's file systems are; tests have their own."""

    sys: str = "/sys"
    proc: str = "/proc"
    dev: str = "/dev"


KERNEL = Roots()


def read_node_gpus(
    environ: Mapping[str, str], notes: list[str], roots: Roots = KERNEL
) -> tuple[tuple[NodeGpu, ...], dict[int, tuple[int, ...]]]:
    """The node's GPUs in PCI order, and NUMA domains where the source names them itself.

    NVIDIA's driver, else its device files, else AMD's kfd, else gres.conf (simulated nodes).
    """
    for found in (_driver_gpus(roots), _device_file_gpus(roots), _amd_gpus(roots)):
        if found:
            return tuple(gpu._replace(numa=_numa(roots, gpu.bus_id)) for gpu in found), {}
    return _declared_gpus(environ, notes)


def _driver_gpus(roots: Roots) -> list[NodeGpu]:
    """What /proc/driver/nvidia/gpus tells; it does not know a device cgroup."""
    found = []
    folder = f"{roots.proc}/driver/nvidia/gpus"
    for bus_id in sorted(_names(folder), key=_bus_order):
        if not _BUS_ID.fullmatch(bus_id):
            continue
        told = dict(_LINE.findall(_text(f"{folder}/{bus_id}/information") or ""))
        uuid, minor = told.get("GPU UUID", ""), told.get("Device Minor", "")
        known = minor.isascii() and minor.isdigit()
        instances = f"{roots.proc}/driver/nvidia/capabilities/gpu{minor}/mig"
        file = f"{roots.dev}/nvidia{minor}" if known else None
        found.append(
            NodeGpu(
                "nvidia",
                bus_id,
                uuid if _UUID.fullmatch(uuid) else None,
                told.get("Model") or None,
                file,
                opens=file is None or may_open(file),
                mig=known and any(name.startswith("gi") for name in _names(instances)),
            )
        )
    return found


def _device_file_gpus(roots: Roots) -> list[NodeGpu]:
    """The device files, where a container hides the driver's folder; their order is the driver's, mostly."""
    minors = sorted(int(match[1]) for match in map(_DEVICE.fullmatch, _names(roots.dev)) if match)
    files = [f"{roots.dev}/nvidia{minor}" for minor in minors]
    return [NodeGpu("nvidia", file=file, opens=may_open(file)) for file in files]


def _amd_gpus(roots: Roots) -> list[NodeGpu]:
    """What kfd shows: the kernel leaves out what a device cgroup forbids."""
    if not os.path.isdir(f"{roots.sys}/class/kfd"):
        return []
    from pathlib import Path

    from clusterlab.topology.discover.amd import read_kfd

    facts, _ = read_kfd(Path(roots.sys))
    found = [NodeGpu("amd", fact.bus_id, fact.uuid, fact.name) for fact in facts]
    return sorted(found, key=lambda gpu: _bus_order(gpu.bus_id or ""))


def _declared_gpus(
    environ: Mapping[str, str], notes: list[str]
) -> tuple[tuple[NodeGpu, ...], dict[int, tuple[int, ...]]]:
    """The GPUs gres.conf declares for this node, each list of cores a domain; none outside a Slurm task."""
    if not in_slurm_task(environ) or "CUDA_VISIBLE_DEVICES" not in environ:
        return (), {}
    conf = environ.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
    file = f"{os.path.dirname(conf)}/gres.conf"
    text = _text(file)
    if not text:
        return (), {}
    from clusterlab.formats.slurm_files import gres_gpus

    try:
        declared = gres_gpus(text, environ.get("SLURMD_NODENAME", ""), file=file)
    except UsageError as error:
        notes.append(str(error))
        return (), {}
    lists = list(dict.fromkeys(gpu.cores for gpu in declared if gpu.cores))
    gpus = tuple(
        NodeGpu(
            model=gpu.type,
            file=gpu.file,
            numa=lists.index(gpu.cores) if gpu.cores else None,
            opens=may_open(gpu.file),
        )
        for gpu in declared
    )
    return gpus, {domain: parse_cpus(text) for domain, text in enumerate(lists)}


def may_open(file: str) -> bool:
    """Whether this process may open a device file. The kernel asks the device cgroup here as for open()."""
    return os.access(file, os.R_OK | os.W_OK)


def read_cpus(
    environ: Mapping[str, str],
    domains: Iterable[int],
    declared: Mapping[int, tuple[int, ...]],
    roots: Roots = KERNEL,
) -> Cpus:
    """This process's CPUs and, of ``domains``, the members and which CPUs are one physical core.

    ``declared`` are domains a source of GPUs named itself.
    """
    mine = tuple(sorted(os.sched_getaffinity(0)))
    known = dict(declared)
    for domain in domains:
        if domain not in known:
            cpus = parse_cpus(_text(f"{roots.sys}/devices/system/node/node{domain}/cpulist") or "")
            if cpus:
                known[domain] = cpus
    siblings: dict[int, tuple[int, ...]] = {}
    for cpu in mine:
        if cpu not in siblings:
            beside = parse_cpus(
                _text(f"{roots.sys}/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
                or ""
            )
            siblings |= dict.fromkeys(beside, beside)
    return Cpus(mine, _cpus_here(environ, roots), known, siblings)


def _cpus_here(environ: Mapping[str, str], roots: Roots) -> int:
    """CPUs the job may use on this host: Slurm's allocation, else this process's cgroup, else all."""
    given = said(environ, "SLURM_CPUS_ON_NODE", minimum=1) if in_slurm_task(environ) else None
    if given is not None:
        return given.value
    lines = (_text(f"{roots.proc}/self/cgroup") or "").splitlines()
    group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    allowed = _text(f"{roots.sys}/fs/cgroup/{group}/cpuset.cpus.effective") or ""
    return len(parse_cpus(allowed)) or os.cpu_count() or 1


def read_near_nics(
    bus_id: str | None, notes: list[str], roots: Roots = KERNEL
) -> tuple[NearNic, ...]:
    """The RDMA devices with their distance to the GPU ``bus_id``."""
    if not _names(f"{roots.sys}/class/infiniband"):
        return ()
    from pathlib import Path

    from clusterlab.topology.discover.distance import nic_distances
    from clusterlab.topology.discover.nics import read_nics
    from clusterlab.topology.discover.pci import read_pci

    sys = Path(roots.sys)
    nics = [nic for nic in read_nics(sys, notes) if nic.rdma]
    pci = {nic.bus_id: read_pci(sys, nic.bus_id) for nic in nics if nic.bus_id}
    far = nic_distances(read_pci(sys, bus_id) if bus_id else None, nics, pci)
    return tuple(
        NearNic(nic.name, tuple(p.number for p in nic.ports if p.up), d.distance, d.near)
        for nic, d in zip(nics, far, strict=True)
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """The kernel's list (``0-3,8``); () for anything else."""
    if not _DOMAIN_CPUS.fullmatch(text):
        return ()
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def _numa(roots: Roots, bus_id: str | None) -> int | None:
    """The GPU's NUMA domain as /sys says (-1: not told); on a machine with one domain it is that."""
    text = _text(f"{roots.sys}/bus/pci/devices/{bus_id}/numa_node") if bus_id else None
    if text and text.isascii() and text.isdigit():
        return int(text)
    nodes = f"{roots.sys}/devices/system/node"
    domains = [name for name in _names(nodes) if _DOMAIN.fullmatch(name)]
    # without CPUs: the memory of a GPU or of an expander
    domains = [name for name in domains if parse_cpus(_text(f"{nodes}/{name}/cpulist") or "")]
    return int(domains[0][4:]) if len(domains) == 1 else None


def _bus_order(bus_id: str) -> tuple[int, str]:
    domain, _, rest = bus_id.partition(":")
    return (int(domain, 16) if _BUS_ID.fullmatch(bus_id) else -1), rest


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(file: str) -> str | None:
    try:
        with open(file, "rb") as stream:
            return stream.read(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return None
