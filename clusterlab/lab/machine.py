"""This machine, as far as a lab is concerned, and what a lab becomes on it."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.lab.commands import which
from clusterlab.lab.layout import Layout
from clusterlab.lab.mounts import shared_directories
from clusterlab.lab.spec import LabSpec, Setup


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found: CPUs we may use, memory, real GPUs' device files, a C compiler, who we are.

    ``user`` is None where our uid has no name.
    """

    hostname: str
    cpus: tuple[int, ...]
    memory_mb: int
    gpus: tuple[str, ...]
    compiler: str | None
    root: bool
    user: str | None
    pmix_lib_to_mend: Path | None


def observe() -> Machine:
    """Look at this machine."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
    gpus = (path for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit())
    return Machine(
        hostname=socket.gethostname().partition(".")[0],
        cpus=tuple(sorted(os.sched_getaffinity(0))),
        memory_mb=int(memory[1]) // 1024 if memory else 4096,
        gpus=tuple(str(path) for path in sorted(gpus, key=lambda p: int(p.name[6:]))),
        compiler=which("cc") or which("gcc"),
        root=os.geteuid() == 0,
        user=_user(os.geteuid()),
        pmix_lib_to_mend=_pmix_lib_to_mend(),
    )


def _user(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _pmix_lib_to_mend() -> Path | None:
    """Where Slurm's PMIx plugin opens libpmix.so by absolute path, and that is not libpmix.so.2.

    Debian's layout (mpi_pmix_v4.so, Slurm 22.05). Only libpmix-dev ships libpmix.so; a libpmix-dev of
    another PMIx points it to the wrong one. `srun --mpi=list` lists pmix all the same, and a slurmd
    that cannot use the library hangs at the first --mpi=pmix step.
    """
    for folder in sorted(Path("/usr/lib").glob("*/pmix2/lib")):
        library = folder / "libpmix.so.2"
        if library.exists() and library.resolve() != (folder / "libpmix.so").resolve():
            return folder
    return None


def sized(
    machine: Machine,
    *,
    nodes: int | None = None,
    gpus: int | None = None,
    cpus: int | None = None,
    sockets: int | None = None,
    memory_mb: int | None = None,
    gpu_type: str | None = None,
    flat: bool = False,
    auth: str = "munge",
    slurmd_timeout_s: int = 10,
    kill_wait_s: int = 5,
    cred_expire_s: int = 10,
    extra_conf: Iterable[str] = (),
    topology_conf: str = "",
    fabric: str = "",
    fabric_digest: str = "",
    routing: str = "pinned",
) -> LabSpec:
    """A LabSpec with what was not given filled in for ``machine``. Raises UsageError.

    A flat lab has one node and takes the machine's own GPUs, where it has as many as are asked for;
    otherwise nodes have pretend GPUs. Nodes share the machine's memory evenly.
    """
    count = (1 if flat else 4) if nodes is None else nodes
    real = flat and count == 1 and len(machine.gpus) > 0 and (gpus or 1) <= len(machine.gpus)
    real = real and gpus != 0
    whole_sockets = 1 if real or (cpus or 16) % 2 else 2
    return LabSpec(
        nodes=count,
        gpus=(len(machine.gpus) if real else 8) if gpus is None else gpus,
        cpus=(len(machine.cpus) if real else 16) if cpus is None else cpus,
        sockets=whole_sockets if sockets is None else sockets,
        memory_mb=machine.memory_mb // max(count, 1) if memory_mb is None else memory_mb,
        gpu_type=("" if real else "h100") if gpu_type is None else gpu_type,
        auth=auth,
        flat=flat,
        real_gpus=real,
        slurmd_timeout_s=slurmd_timeout_s,
        kill_wait_s=kill_wait_s,
        cred_expire_s=cred_expire_s,
        extra_conf=tuple(extra_conf),
        topology_conf=topology_conf,
        fabric=fabric,
        fabric_digest=fabric_digest,
        routing=routing,
    )


def resolve(
    spec: LabSpec,
    machine: Machine,
    layout: Layout,
    *,
    ports: tuple[int, ...] = (),
    share: Iterable[Path] = (),
    several_nics: bool = False,
) -> Setup:
    """How ``spec`` is realised on ``machine``. ``ports``: slurmctld's and each slurmd's, flat mode only.

    ``several_nics``: nodes have more than one NIC of a fabric.
    """
    user_namespace = not machine.root and not spec.flat
    if user_namespace and machine.compiler is None:
        raise UsageError(
            "no C compiler: without root, Slurm's daemons need the setgroups() of the shim",
            fix="install gcc, or clusterlab lab up --flat",
        )
    if several_nics and machine.compiler is None:
        raise UsageError(
            "no C compiler: with several NICs per node a rank sends by its own only with a small library",
            fix="install gcc, or choose a fabric with one NIC per node",
        )
    if spec.flat and machine.user is None:
        raise UsageError(
            "your uid has no name in /etc/passwd, and Slurm's daemons need one",
            fix="run as another user, or without --flat",
        )
    pretend = tuple(str(layout.devices / f"nvidia{gpu}") for gpu in range(spec.gpus))
    return Setup(
        hostname=machine.hostname,
        user=machine.user if spec.flat and machine.user else "root",
        user_namespace=user_namespace,
        affinity=_affinity(spec, machine),
        real_cpus=machine.cpus,
        devices=machine.gpus[: spec.gpus] if spec.real_gpus else pretend,
        ports=ports,
        shared=() if spec.flat else shared_directories((layout.run_dir, *share)),
        pmix_lib="" if spec.flat else str(machine.pmix_lib_to_mend or ""),
        source_nic=several_nics,
    )


def _affinity(spec: LabSpec, machine: Machine) -> str:
    enough = set(range(spec.cpus)) <= set(machine.cpus)
    if machine.compiler and not (spec.real_gpus and enough):
        return "shim"
    return "native" if enough else "none"
