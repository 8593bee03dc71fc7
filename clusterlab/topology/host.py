"""This host as a fabric: cores, memory and NUMA domains.

``read_host`` is the impure edge (psutil, /sys, /proc); ``host_fabric`` builds from what it read.
"""

from __future__ import annotations

import hashlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from clusterlab.topology.fabric import Device, Fabric, Link

_NODES = Path("/sys/devices/system/node")
_CPUINFO = Path("/proc/cpuinfo")


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
        cpu_model=_cpu_model(),
        kernel=f"{platform.system()} {platform.release()}",
        domains=_domains(usable),
    )


def _cpu_model() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown CPU"


def _domains(usable: set[int]) -> tuple[NumaDomain, ...]:
    """NUMA domains that hold a usable core; one domain with all where /sys does not say."""
    found = []
    for node in sorted(_NODES.glob("node[0-9]*"), key=lambda p: int(p.name[4:])):
        try:
            cores = parse_cpu_list((node / "cpulist").read_text())
            memory = _mem_total(node / "meminfo")
        except (OSError, ValueError):
            continue
        mine = tuple(c for c in cores if c in usable)
        if mine:
            found.append(NumaDomain(int(node.name[4:]), mine, memory))
    if {c for d in found for c in d.cores} != usable:
        import psutil

        return (NumaDomain(0, tuple(sorted(usable)), psutil.virtual_memory().total),)
    return tuple(found)


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """The kernel's list format: ``0-3,8`` is (0, 1, 2, 3, 8). Raises ValueError on anything else."""
    cores: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return tuple(cores)


def _mem_total(meminfo: Path) -> int | None:
    for line in meminfo.read_text().splitlines():
        words = line.replace(":", " ").split()
        if "MemTotal" in words:
            return int(words[words.index("MemTotal") + 1]) * 1024
    return None


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
