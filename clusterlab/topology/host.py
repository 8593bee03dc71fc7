"""This host as a fabric: cores, memory and NUMA domains.

``read_host`` is the impure edge (psutil, /sys, /proc); ``host_fabric`` builds from what it read.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link

_CPUINFO = Path("/proc/cpuinfo")
_MOST_CORES = 1 << 20


@dataclass(frozen=True, slots=True)
class NumaDomain:
    """One NUMA domain: the cores this process may use there, and the domain's memory (None: unknown)."""

    index: int
    cores: tuple[int, ...]
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What this process can see and use of the host."""

    hostname: str
    cpu_model: str
    kernel: str
    domains: tuple[NumaDomain, ...]

    @property
    def cores(self) -> tuple[int, ...]:
        """All cores this process may use."""
        return tuple(c for d in self.domains for c in d.cores)

    @property
    def description(self) -> str:
        """``AMD EPYC, 2 cores, 1 NUMA domain, Linux 6.18``: what decides a host's speed, for people."""
        numa = f"{len(self.domains)} NUMA domain" + ("s" if len(self.domains) > 1 else "")
        return f"{self.cpu_model}, {len(self.cores)} cores, {numa}, {self.kernel}"

    @property
    def fingerprint(self) -> str:
        """Short hash of ``description``: equal hosts (not names) share measured constants."""
        return hashlib.sha256(self.description.encode()).hexdigest()[:12]


def read_host() -> HostFacts:
    """Look at this host. Only the cores in this process's affinity mask count."""
    usable = set(os.sched_getaffinity(0))
    return HostFacts(
        hostname=platform.node() or "localhost",
        cpu_model=cpu_model(),
        kernel=kernel(),
        domains=_domains(usable),
    )


def kernel() -> str:
    """``Linux 6.8.0``."""
    return f"{platform.system()} {platform.release()}"


def cpu_model(cpuinfo: Path = _CPUINFO) -> str:
    """The processor's name, as the kernel or else Python tells it."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown CPU"


def numa_domains(sys: Path = Path("/sys")) -> tuple[NumaDomain, ...]:
    """The machine's NUMA domains that have cores, with all of them; empty where ``sys`` does not say."""
    found = []
    for node in (sys / "devices/system/node").glob("node[0-9]*"):
        try:
            index, cores = int(node.name[4:]), parse_cpu_list((node / "cpulist").read_text())
        except (OSError, ValueError):
            continue
        if cores:  # none: memory of a GPU or of an expander
            found.append(NumaDomain(index, cores, _mem_total(node / "meminfo")))
    return tuple(sorted(found, key=lambda domain: domain.index))


def _domains(usable: set[int]) -> tuple[NumaDomain, ...]:
    """NUMA domains that hold a usable core; one domain with all where /sys does not say."""
    found = []
    for domain in numa_domains():
        mine = tuple(c for c in domain.cores if c in usable)
        if mine:
            found.append(NumaDomain(domain.index, mine, domain.memory_bytes))
    if {c for d in found for c in d.cores} != usable:
        import psutil

        return (NumaDomain(0, tuple(sorted(usable)), psutil.virtual_memory().total),)
    return tuple(found)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format: ``0-3,8`` is (0, 1, 2, 3, 8). Raises ValueError on anything else."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        span = range(int(first), int(last or first) + 1)
        if span.stop > _MOST_CORES:
            raise ValueError(f"core {span.stop - 1}")
        cores += span
    return tuple(cores)


def _mem_total(meminfo: Path) -> int | None:
    """``Node 0 MemTotal: 65536 kB`` in bytes; None where the file does not say."""
    try:
        found = re.search(r"MemTotal:\s*([0-9]{1,15}) kB", meminfo.read_text(errors="replace"))
    except OSError:
        return None
    return int(found.group(1)) * 1024 if found else None


def host_fabric(
    facts: HostFacts, *, copy_GBps: float | None = None, copy_source: str = ""
) -> Fabric:
    """The host's CPUs as a fabric. Ranks reach each other through memory, by cores that copy.

    ``copy_GBps`` is what one core copies per second at best (measured by the self-calibration; None:
    not measured). What NUMA domains lose between each other is unknown here.
    """
    host = facts.hostname
    cpus = tuple(
        Device(
            name=f"{host}/cpu{d.index}",
            kind="cpu",
            host=host,
            model=facts.cpu_model,
            numa=d.index,
            cores=len(d.cores),
            memory_bytes=d.memory_bytes,
        )
        for d in facts.domains
    )
    loops = [
        Link(
            src=cpu.name,
            dst=cpu.name,
            link_class="memory",
            GBps=copy_GBps,
            GBps_source=copy_source,
            multiplicity=cpu.cores or 1,
        )
        for cpu in cpus
    ]
    between = [
        Link(src=a.name, dst=b.name, link_class="upi", GBps=None)
        for a in cpus
        for b in cpus
        if a is not b
    ]
    return Fabric(
        name="host",
        devices=cpus,
        links=(*loops, *between),
        description=facts.description,
        origin="this host",
    )
