"""What a lab could leave behind on a machine: to be compared before and after."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from clusterlab.lab.labs import Lab
from clusterlab.lab.namespaces import namespace_of
from clusterlab.lab.processes import command_line, descendants, process, processes

_KINDS = ("net", "mnt", "pid", "uts", "ipc", "user")


@dataclass(frozen=True, slots=True)
class Traces:
    """Processes (pid, start) of a lab and the namespaces that they are in."""

    processes: frozenset[tuple[int, str]]
    namespaces: frozenset[str]


def traces(lab: Lab) -> Traces:
    """The traces of a lab that is up."""
    pids = [lab.holder.outer, *descendants(lab.holder.outer)]
    found = [alive for pid in pids if (alive := process(pid))]
    ours = {namespace_of("self", kind) for kind in _KINDS}
    spaces = {namespace_of(pid, kind) for pid in pids for kind in _KINDS} - ours - {None}
    return Traces(
        frozenset((alive.pid, alive.start) for alive in found),
        frozenset(str(space) for space in spaces),
    )


def remaining(before: Traces, base: Path) -> list[str]:
    """What is still there of a lab that went down: processes, namespaces, and who speaks of ``base``."""
    left = []
    for alive in processes().values():
        words = " ".join(command_line(alive.pid))
        spaces = {namespace_of(alive.pid, kind) for kind in _KINDS} & before.namespaces
        if (alive.pid, alive.start) in before.processes or spaces or f"{base}/" in words:
            left.append(f"{alive.pid} {words} {sorted(map(str, spaces))}")
    return left


def machine_state() -> dict[str, list[str]]:
    """Mounts, links, cgroups and shared memory of the machine itself."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    cgroups = [str(path) for path in Path("/sys/fs/cgroup").glob("**/*slurm*")]
    # /dev/shm of other programs comes and goes: Slurm's and PMIx's names only.
    shm = [p.name for p in Path("/dev/shm").iterdir() if "slurm" in p.name or "pmix" in p.name]
    return {
        "mounts": sorted(line.split(" ", 2)[2] for line in mounts),
        "links": sorted(line.split(":")[1].strip() for line in links.splitlines()),
        "cgroups": cgroups,
        "shm": shm,
    }
