"""What other jobs hold: ``n0:gpu=0-2`` or ``n[0-1]:gpu=0-3,cpu=0-7``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.core.digits import saturated
from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.hostlist import expand_hostlist

_LIST = r"[0-9]{1,5}(?:-[0-9]{1,5})?(?:,[0-9]{1,5}(?:-[0-9]{1,5})?)*"
_HELD = re.compile(rf"(gpu|cpu)=({_LIST})(?:,(?=gpu=|cpu=)|\Z)")
_FORM = "NODE:gpu=0-2 or NODE:gpu=0-2,cpu=0-7"


@dataclass
class Held:
    """GPUs and cores that other jobs hold on one node."""

    gpus: set[int] = field(default_factory=set)
    cores: set[int] = field(default_factory=set)


def read_busy(said: Iterable[str], nodes: Sequence[str], profile: NodeProfile) -> dict[str, Held]:
    """What is held on which of ``nodes``. CPUs are the kernel's numbers.

    A job that is said to hold GPUs only is taken to hold as many cores, the lowest free ones of the
    sockets of its GPUs: what Slurm gives one task a GPU. Raises UsageError.
    """
    held: dict[str, Held] = {}
    for text in said:
        names, colon, rest = text.rpartition(":")
        parts = _read_parts(rest) if colon else None
        if parts is None:
            raise UsageError(repr(text), where="--busy", expected=_FORM)
        gpus = _numbers(parts.get("gpu", ""), len(profile.gpus), "GPU", text)
        cpus = _numbers(parts.get("cpu", ""), profile.cpus, "CPU", text)
        for name in expand_hostlist(names, where="--busy"):
            if name not in nodes:
                raise unknown("node", name, nodes, where="--busy")
            node = held.setdefault(name, Held())
            node.gpus |= gpus
            cores = {_core_of(cpu, profile) for cpu in cpus}
            node.cores |= cores if "cpu" in parts else _likely_cores(gpus, node.cores, profile)
    return held


def _read_parts(text: str) -> dict[str, str] | None:
    parts: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _HELD.match(text, place)
        if found is None or found[1] in parts:
            return None
        parts[found[1]] = found[2]
        place = found.end()
    return parts or None


def _numbers(words: str, count: int, kind: str, text: str) -> set[int]:
    found: set[int] = set()
    for part in filter(None, words.split(",")):
        first, _, last = part.partition("-")
        if saturated(last or first) >= count or saturated(last or first) < saturated(first):
            raise UsageError(
                f"{text!r}: {kind} {part}",
                where="--busy",
                expected=f"{kind}s 0 to {count - 1}" if count else f"a node with a {kind}",
            )
        found |= set(range(saturated(first), saturated(last or first) + 1))
    return found


def _core_of(cpu: int, profile: NodeProfile) -> int:
    return cpu % profile.cores if profile.core_of_thread_first else cpu // profile.threads_per_core


def _likely_cores(gpus: set[int], taken: set[int], profile: NodeProfile) -> set[int]:
    cores: set[int] = set()
    for gpu in sorted(gpus):
        near = (
            core
            for socket in sorted(profile.sockets_of_gpu(gpu))
            for core in profile.cores_of(socket)
        )
        core = next((core for core in near if core not in taken | cores), None)
        if core is not None:
            cores.add(core)
    return cores
