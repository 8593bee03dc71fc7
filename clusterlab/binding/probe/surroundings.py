"""What a process lives in: launchers, container, cgroup, its parent's environment, Slurm's configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from clusterlab.binding.records import Container, Slurm
from clusterlab.core.environment import allowed_environment
from clusterlab.formats.slurm_files import setting
from clusterlab.launch.claims import Environ, in_slurm_task
from clusterlab.topology.discover.sysfs import read_text

_IDENTITY = re.compile(
    r"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_RANK"
    r"|ROLE_WORLD_SIZE|TORCHELASTIC_(?:RUN_ID|RESTART_COUNT|MAX_RESTARTS|USE_AGENT_STORE)"
    r"|MASTER_ADDR|MASTER_PORT|PMI_(?:RANK|SIZE|JOBID)|MPI_LOCALRANKID|MPI_LOCALNRANKS"
    r"|(?:PALS|FLUX|JSM|MV2_COMM)_[A-Z_]*(?:RANK|SIZE|LOCAL_ID|NNODES)[A-Z_]*"
    r"|ROCR_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|ZE_AFFINITY_MASK"
    r"|ZE_FLAT_DEVICE_HIERARCHY|SLURMD_NODENAME|SLURMD_TRES_BIND|TP_SOCKET_IFNAME"
)
_RUNTIME = re.compile(r"container|docker|libpod|kubepods|enroot|apptainer|singularity|crio")


def deciding_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a diagnosis may show: the house's allow-list, and what tells ranks and masks."""
    more = {name: environ[name] for name in environ if _IDENTITY.fullmatch(name)}
    return dict(sorted((allowed_environment(environ) | more).items()))


def launchers(environ: Environ) -> tuple[str, ...]:
    """The launchers around this process, outermost first, by the variables they leave."""
    present = {
        "slurm": in_slurm_task(environ),
        "flux": "FLUX_TASK_RANK" in environ,
        "openmpi": "OMPI_COMM_WORLD_SIZE" in environ,
        "pmix": "PMIX_RANK" in environ,
        "pmi": "PMI_RANK" in environ,
        "torchrun": "TORCHELASTIC_RUN_ID" in environ,
    }
    return tuple(name for name, there in present.items() if there)


def launcher_line(environ: Environ, parent: list[str]) -> str:
    """The launcher's command as far as this process can tell: torchrun's own, or srun's GPU binding.

    Slurm tells its tasks what binding was asked for (SLURMD_TRES_BIND), not the command line.
    """
    if "TORCHELASTIC_RUN_ID" in environ:
        words = shlex.join(parent)
        return words if "torch" in words else "torchrun"
    if not in_slurm_task(environ):
        return ""
    bound = environ.get("SLURMD_TRES_BIND", "").removeprefix("gres:").removeprefix("gres/")
    bind = bound.removeprefix("gpu:") if bound.startswith("gpu:") else ""
    return f"srun --gpu-bind={bind}" if bind and not re.search(r"\s", bind) else ""


def container_here(environ: Environ, *, root: Path = Path("/")) -> Container | None:
    """The container this process runs in, by what runtimes leave; None: no sign of one."""
    named = environ.get("container", "")
    cgroup = read_text(root / "proc/self/cgroup") or ""
    signs = {
        "apptainer": "APPTAINER_CONTAINER" in environ,
        "singularity": "SINGULARITY_CONTAINER" in environ,
        "enroot": "ENROOT_ROOTFS" in environ or named == "enroot",
        "podman": (root / "run/.containerenv").exists() or "libpod" in cgroup,
        "kubernetes": "KUBERNETES_SERVICE_HOST" in environ or "kubepods" in cgroup,
        "docker": (root / ".dockerenv").exists() or "docker" in cgroup,
        named: bool(_RUNTIME.search(named)),
    }
    return next((Container(name) for name, seen in signs.items() if seen), None)


def cgroup_hint(*, root: Path = Path("/")) -> str | None:
    """The cgroup that holds this process, where it is one of a scheduler or runtime: for people."""
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        path = line.rpartition(":")[2]
        if "slurm" in path or _RUNTIME.search(path):
            return f"cgroup {path}"
    return None


def parent_command(pid: int, *, proc: Path = Path("/proc")) -> list[str]:
    """The words of a process's command line; [] where they cannot be read."""
    text = read_text(proc / str(pid) / "cmdline") or ""
    return [word for word in text.split("\0") if word]


def parent_environment(
    pid: int, names: Iterable[str], *, proc: Path = Path("/proc")
) -> dict[str, str] | None:
    """The launching shell's or agent's variables of these ``names``; None: none, or not readable.

    A daemon that starts tasks (slurmstepd, a PMIx or MPI daemon) has an environment of its own, which
    tells nothing of the job: None.
    """
    name = read_text(proc / str(pid) / "comm") or ""
    text = read_text(proc / str(pid) / "environ")
    if text is None or name.startswith(
        ("slurmstepd", "orted", "prted", "hydra", "systemd", "init")
    ):
        return None
    pairs = (entry.partition("=") for entry in text.split("\0"))
    wanted = set(names)
    return {key: value for key, _, value in pairs if key in wanted} or None


def slurm_folder(environ: Environ) -> Path | None:
    """Where Slurm's configuration lies on this node; None outside a task."""
    if not in_slurm_task(environ):
        return None
    named = environ.get("SLURM_CONF")
    return Path(named).parent if named else Path("/etc/slurm")


def slurm_facts(folder: Path | None, version: str | None) -> Slurm:
    """Whether Slurm confines devices, by its own files; None where they cannot be read."""
    text = read_text(folder / "slurm.conf") if folder else None
    if text is None:
        return Slurm(version=version)
    confines = (
        setting(read_text(folder / "cgroup.conf") or "", "ConstrainDevices") if folder else None
    )
    plugin = setting(text, "TaskPlugin") or ""
    constrained = (confines or "no").lower() == "yes" and "cgroup" in plugin.lower()
    return Slurm(constrained, version)


def ephemeral_ports(*, proc: Path = Path("/proc")) -> tuple[int, int] | None:
    """The kernel's range of client ports."""
    words = (read_text(proc / "sys/net/ipv4/ip_local_port_range") or "").split()
    if len(words) != 2 or not all(w.isascii() and w.isdigit() and len(w) <= 5 for w in words):
        return None
    return int(words[0]), int(words[1])
