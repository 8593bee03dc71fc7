"""gres.conf of a fabric's hosts: which GPU is which device file, next to which cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device

_AMD = re.compile(r"(?i)\b(?:amd|instinct|mi\d{2,3})")
_FIRST_RENDER_NODE = 128
"""/dev/dri/renderD128 is the first GPU (drivers/gpu/drm: minors of render nodes begin at 128)."""


def gres_conf(fabric: Fabric) -> str:
    """One line per group of equal hosts and NUMA domain. Raises UsageError where no host has a GPU.

    ``Cores`` are Slurm's own numbers (sockets in order, no hardware threads); they are left out where the
    fabric does not say how many cores a domain has. Device files are numbered in the fabric's order of GPUs.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for host in fabric.hosts:
        lines = tuple(_lines(fabric.on_host(host, "gpu"), fabric.on_host(host, "cpu")))
        if lines:
            groups.setdefault(lines, []).append(host)
    if not groups:
        raise UsageError("no host has a GPU", where=f"fabric {fabric.name}", expected="GPUs")
    text = [
        f"# {fabric.name}. slurm.conf: GresTypes=gpu, and Gres=gpu:TYPE:COUNT on each node's line.",
        "# Check with `slurmd -G` on a node: Cores are Slurm's numbers, not the kernel's.",
    ]
    if any("Cores=" not in line for lines in groups for line in lines):
        text.append("# Without Cores=: the fabric does not say which cores are next to those GPUs.")
    for lines, hosts in groups.items():
        text += [f"NodeName={compress_hostlist(hosts)} {line}" for line in lines]
    return "\n".join(text) + "\n"


def _lines(gpus: Sequence[Device], cpus: Sequence[Device]) -> Iterator[str]:
    """One line per run of GPUs of one model and domain."""
    cores = _cores(cpus)
    numbered = list(enumerate(gpus))
    for (model, numa), run in groupby(numbered, lambda item: (item[1].model, item[1].numa)):
        numbers = [number for number, _ in run]
        line = "Name=gpu"
        kind = _type(model)
        line += f" Type={kind}" if kind else ""
        file = _file(model, numbers)
        # Without Flags a step gets the masks of all vendors (gres.conf(5)).
        vendor = "amd" if file.startswith("/dev/dri") else "nvidia"
        line += f" File={file} Flags={vendor}_gpu_env"
        if numa is not None and numa in cores:
            line += f" Cores={cores[numa]}"
        yield line


def _cores(cpus: Sequence[Device]) -> dict[int, str]:
    """Cores of each NUMA domain, counted through the domains; empty where one is unknown."""
    if any(cpu.numa is None or not cpu.cores for cpu in cpus):
        return {}
    found: dict[int, str] = {}
    first = 0
    for cpu in sorted(cpus, key=lambda cpu: cpu.numa or 0):
        count = cpu.cores or 0
        last = first + count - 1
        found[cpu.numa or 0] = f"{first}-{last}" if count > 1 else f"{first}"
        first += count
    return found


def _type(model: str | None) -> str:
    """``H100-SXM5-80GB`` as ``h100``: the word by which people ask for it."""
    words = re.findall(r"[a-z0-9_]+", (model or "").lower())
    named = [w for w in words if re.fullmatch(r"[a-z]+\d+[a-z]*", w)]
    return named[0] if named else "_".join(words[:2])


def _file(model: str | None, numbers: Sequence[int]) -> str:
    if _AMD.search(model or ""):
        prefix, numbers = "/dev/dri/renderD", [n + _FIRST_RENDER_NODE for n in numbers]
    else:
        prefix = "/dev/nvidia"
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]}"
    return f"{prefix}[{numbers[0]}-{numbers[-1]}]"
