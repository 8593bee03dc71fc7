"""What the launcher was asked for: options read from the command line and from what Slurm exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_FLAG = re.compile(r"(?:^|\s)--([a-z][a-z-]*)(?:[= ]([^\s;]+))?")
_SHORT = re.compile(r"(?:^|\s)-([nNcG])\s*([0-9]+)")
_SHORT_NAMES = {"n": "ntasks", "N": "nodes", "c": "cpus-per-task", "G": "gpus"}
_GRES_COUNT = re.compile(r"gpu(?::[A-Za-z][A-Za-z0-9_.]*)?:([0-9]{1,6})")
_IDS = re.compile(r"(map|mask)(?:_gpu)?:([0-9xXa-fA-F,*]+)")


@dataclass(frozen=True, slots=True)
class Options:
    """Options by long name without dashes, as far as the record tells them."""

    flags: Mapping[str, str]

    def get(self, name: str) -> str:
        """The option's value, "" where absent or bare."""
        return self.flags.get(name, "")

    @property
    def gpu_bind(self) -> str:
        """What --gpu-bind, --tres-bind or --accel-bind asked for: closest, none, map_gpu:…; ""."""
        if "g" in self.get("accel-bind"):
            return "closest"
        return self.get("gpu-bind") or self.get("tres-bind").removeprefix("gres/gpu:")

    @property
    def binds_per_task(self) -> bool:
        """Whether tasks were to get GPUs of their own (closest apart: it shares them)."""
        bind = self.gpu_bind.removeprefix("verbose,")
        if bind:
            return bind.startswith(("single", "per_task", "map", "mask"))
        return bool(self.get("gpus-per-task") or self.get("ntasks-per-gpu"))

    def gpus_asked(self, hosts: int) -> int | None:
        """GPUs per node that were asked for; None where that is not told."""
        gres = _GRES_COUNT.search(self.get("gres"))
        if gres:
            return int(gres[1])
        for name, parts in (("gpus-per-node", 1), ("gpus", hosts)):
            count = self.get(name).rpartition(":")[2]
            if count.isdecimal() and len(count) <= 9 and parts and int(count) % parts == 0:
                return int(count) // parts
        return None

    def bind_ids(self) -> tuple[int, ...]:
        """The GPU ids of map_gpu (decimal) or the bits of mask_gpu (0x…, or else decimal: measured)."""
        match = _IDS.search(self.gpu_bind)
        if match is None:
            return ()
        found: list[int] = []
        for entry in match[2].split(","):
            value = _id_value(entry.partition("*")[0])
            if value is not None and match[1] == "map":
                found.append(value)
            elif value is not None:
                found += [bit for bit in range(min(value.bit_length(), 64)) if value >> bit & 1]
        return tuple(found)


def _id_value(text: str) -> int | None:
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        return None


def read_options(launcher: str, envs: Iterable[Mapping[str, str]]) -> Options:
    """From the command line first, then from SLURM_GPU_BIND and its like in the ranks' environments."""
    flags: dict[str, str] = {}
    for match in _FLAG.finditer(launcher):
        flags.setdefault(match[1].replace("_", "-"), match[2] or "")
    for match in _SHORT.finditer(launcher):
        flags.setdefault(_SHORT_NAMES[match[1]], match[2])
    exported = {
        "SLURM_GPU_BIND": "gpu-bind",
        "SLURM_TRES_BIND": "tres-bind",
        "SLURM_GPUS_PER_TASK": "gpus-per-task",
        "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
        "SLURM_GPUS_PER_NODE": "gpus-per-node",
        "SLURM_MPI_TYPE": "mpi",
    }
    for env in envs:
        for variable, name in exported.items():
            if env.get(variable):
                flags.setdefault(name, env[variable])
    return Options(flags)
