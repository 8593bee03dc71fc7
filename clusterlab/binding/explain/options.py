"""The options of one command with their values, those of the command line over the environment's.

Which variable srun reads for which option: Slurm's src/srun/libsrun/opt.c (env_vars); for sbatch:
src/sbatch/opt.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from clusterlab.binding.explain.command_line import CommandLine
from clusterlab.binding.explain.cpu_bind_option import (
    CpuBind,
    GpuBind,
    read_cpu_bind,
    read_gpu_bind,
)
from clusterlab.binding.explain.distribution import Distribution, read_distribution
from clusterlab.binding.explain.gpu_request import read_gpu_count, read_gres
from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.binding.explain.versions import SlurmRules
from clusterlab.core.digits import saturated
from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_hostlist

_MAX = 1 << 20

SRUN_VARIABLES = {
    "SRUN_CPUS_PER_TASK": "cpus-per-task",
    "SLURM_CPU_BIND": "cpu-bind",
    "SLURM_CPUS_PER_GPU": "cpus-per-gpu",
    "SLURM_DISTRIBUTION": "distribution",
    "SLURM_EXACT": "exact",
    "SLURM_EXCLUSIVE": "exclusive",
    "SLURM_GPUS": "gpus",
    "SLURM_GPU_BIND": "gpu-bind",
    "SLURM_GPUS_PER_NODE": "gpus-per-node",
    "SLURM_GPUS_PER_SOCKET": "gpus-per-socket",
    "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_GRES": "gres",
    "SLURM_GRES_FLAGS": "gres-flags",
    "SLURM_HINT": "hint",
    "SLURM_JOB_NUM_NODES": "nodes",
    "SLURM_NCORES_PER_SOCKET": "cores-per-socket",
    "SLURM_NPROCS": "ntasks",
    "SLURM_NTASKS": "ntasks",
    "SLURM_NSOCKETS_PER_NODE": "sockets-per-node",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
    "SLURM_NTASKS_PER_TRES": "ntasks-per-tres",
    "SLURM_OVERCOMMIT": "overcommit",
    "SLURM_OVERLAP": "overlap",
    "SLURM_THREADS_PER_CORE": "threads-per-core",
}
SBATCH_VARIABLES = {
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_DISTRIBUTION": "distribution",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPU_BIND": "gpu-bind",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_GRES_FLAGS": "gres-flags",
    "SBATCH_HINT": "hint",
    "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_THREADS_PER_CORE": "threads-per-core",
}


@dataclass(slots=True)
class Options:
    """Values as Slurm holds them. None: not said. Of counts that have a default ``…_set`` tells."""

    command: str = "srun"
    ntasks: int = 1
    ntasks_set: bool = False
    min_nodes: int = 1
    max_nodes: int = 0
    nodes_set: bool = False
    cpus_per_task: int | None = None
    ntasks_per_node: int | None = None
    ntasks_per_socket: int | None = None
    ntasks_per_core: int | None = None
    ntasks_per_gpu: int | None = None
    sockets_per_node: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    mincpus: int | None = None
    gpus: str | None = None
    gpus_per_node: str | None = None
    gpus_per_socket: str | None = None
    gpus_per_task: str | None = None
    cpus_per_gpu: int = 0
    gres: str | None = None
    gres_flags: tuple[str, ...] = ()
    gpu_bind: GpuBind | None = None
    cpu_bind: CpuBind = field(default_factory=CpuBind)
    hint: str | None = None
    distribution: Distribution = field(default_factory=Distribution)
    nodelist: list[str] | None = None
    exclude: list[str] | None = None
    exclusive: bool = False
    exact: bool = False
    whole: bool = False
    overlap: bool = False
    overcommit: bool = False
    relative: int | None = None
    from_cli: set[str] = field(default_factory=set)
    from_env: set[str] = field(default_factory=set)

    def said(self, name: str) -> bool:
        """Whether the command line or the environment gives the option."""
        return name in self.from_cli or name in self.from_env


def read_options(line: CommandLine, environ: Mapping[str, str]) -> Options:
    """The options of ``line`` under ``environ``. Raises RejectedError with Slurm's words."""
    options = Options(command=line.command)
    variables = SRUN_VARIABLES if line.command == "srun" else SBATCH_VARIABLES
    together = {**environ, **line.environ}
    plane_size = together.get("SLURM_DIST_PLANESIZE")
    for variable, name in variables.items():
        if variable in together:
            _set(options, name, together[variable], plane_size)
            options.from_env.add(name)
    for name, value in line.options:
        _set(options, name, value, plane_size)
        options.from_cli.add(name)
        options.from_env.discard(name)
    return options


_INTEGERS = {
    "ntasks-per-node": "ntasks_per_node",
    "ntasks-per-socket": "ntasks_per_socket",
    "ntasks-per-core": "ntasks_per_core",
    "ntasks-per-gpu": "ntasks_per_gpu",
    "ntasks-per-tres": "ntasks_per_gpu",
    "sockets-per-node": "sockets_per_node",
    "cores-per-socket": "cores_per_socket",
    "threads-per-core": "threads_per_core",
    "cpus-per-task": "cpus_per_task",
    "cpus-per-gpu": "cpus_per_gpu",
    "mincpus": "mincpus",
    "relative": "relative",
}
_TEXTS = {
    "gpus": "gpus",
    "gpus-per-node": "gpus_per_node",
    "gpus-per-socket": "gpus_per_socket",
    "gpus-per-task": "gpus_per_task",
    "hint": "hint",
    "gres": "gres",
}
_SWITCHES = {"overcommit": "overcommit", "whole": "whole"}


def _set(options: Options, name: str, value: str | None, plane_size: str | None) -> None:
    text = value or ""
    if name in _INTEGERS:
        setattr(options, _INTEGERS[name], _integer(options.command, name, text))
    elif name in _TEXTS:
        if name.startswith("gpus"):
            read_gpu_count(text)
        setattr(options, _TEXTS[name], text)
    elif name in _SWITCHES:
        setattr(options, _SWITCHES[name], True)
    elif name == "distribution":
        options.distribution = read_distribution(text, plane_size=plane_size)
    elif name in ("nodelist", "exclude"):
        setattr(options, name, expand_hostlist(text, where=f"{options.command} --{name}"))
    elif name in _SETTERS:
        _SETTERS[name](options, text)
    else:
        _set_sharing(options, name, value)


def _set_sharing(options: Options, name: str, value: str | None) -> None:
    """Options on whom a job or step shares with. What --exclusive means for a step: it is exact."""
    if name == "exact":
        options.exact = True
    elif name == "exclusive":
        if value in (None, "", "exclusive"):
            options.exclusive = options.exact = True
        elif value not in ("user", "mcs", "oversubscribe"):
            raise RejectedError(f"{options.command}: error: Invalid --exclusive specification")
    elif name == "oversubscribe":
        options.exclusive = False
    elif name == "overlap":
        options.overlap = True


def _integer(command: str, name: str, text: str) -> int:
    match = re.fullmatch(r"\+?([0-9]+)[kK]?", text, re.ASCII)
    if match is None or (saturated(match[1]) == 0 and name != "relative"):
        raise RejectedError(f'{command}: error: Invalid numeric value "{text}" for --{name}.')
    value = saturated(match[1]) * (1024 if text[-1:] in "kK" else 1)
    if value > _MAX:
        raise UsageError(
            f"{value}", where=f"{command} --{name}", expected=f"at most {_MAX} to explain"
        )
    return value


def _set_nodes(options: Options, text: str) -> None:
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text, re.ASCII)
    low = saturated(match[1]) if match else 0
    high = saturated(match[2] or match[1]) if match else 0
    if not low or high < low:
        raise RejectedError(f'{options.command}: error: "{text}" is not a valid node count')
    options.min_nodes, options.max_nodes, options.nodes_set = low, high, True


def _set_extra(options: Options, text: str) -> None:
    """-B sockets[:cores[:threads]], ``*`` for any."""
    numbers = [saturated(w) if w.isascii() and w.isdigit() else None for w in text.split(":")]
    padded = [*numbers, None, None, None][:3]
    options.sockets_per_node, options.cores_per_socket, options.threads_per_core = padded


def _set_tres_bind(options: Options, text: str) -> None:
    """``gres/gpu:[verbose,]map:0,1+gres/nic:closest``: the GPU's part is --gpu-bind's, but for names."""
    for part in text.split("+"):
        name, _, rest = part.partition(":")
        if name.removeprefix("gres/") == "gpu":
            words = re.sub(r"^(verbose,)?(map|mask):", r"\1\2_gpu:", rest)
            options.gpu_bind = read_gpu_bind(words)


def _set_tres_per_task(options: Options, text: str) -> None:
    for part in text.split(","):
        name, _, count = part.replace("=", ":").partition(":")
        if name == "cpu":
            options.cpus_per_task = _integer(options.command, "tres-per-task", count)
        elif name == "gres/gpu":
            options.gpus_per_task = count or "1"


def _set_ntasks(options: Options, text: str) -> None:
    options.ntasks, options.ntasks_set = _integer(options.command, "ntasks", text), True


def _set_gpu_bind(options: Options, text: str) -> None:
    options.gpu_bind = read_gpu_bind(text)


def _set_accel_bind(options: Options, text: str) -> None:
    if "g" in text:
        options.gpu_bind = GpuBind("closest", text=f"accel-bind:{text}")


def _set_cpu_bind(options: Options, text: str) -> None:
    options.cpu_bind = read_cpu_bind(text, options.cpu_bind)


def _set_gres_flags(options: Options, text: str) -> None:
    options.gres_flags = tuple(text.lower().split(","))


_BINDING_FLAGS = {"disable-binding", "enforce-binding"}
_SHARING_FLAGS = {"one-task-per-sharing", "multiple-tasks-per-sharing"}


def check_gres_flags(options: Options, rules: SlurmRules) -> None:
    """Raise RejectedError for --gres-flags that this version does not know (arg_set_gres_flags)."""
    command, flags = options.command, options.gres_flags
    if not rules.has_allow_task_sharing:
        if flags and (len(flags) > 1 or flags[0] not in _BINDING_FLAGS):
            raise RejectedError(f"{command}: error: Invalid --gres-flags specification")
        return
    for flag in flags:
        if flag == "allow-task-sharing" and command != "srun":
            raise RejectedError(
                f"{command}: error: --gres-flags=allow-task-sharing is only used with srun."
            )
        if flag not in _BINDING_FLAGS | _SHARING_FLAGS | {"allow-task-sharing"}:
            raise RejectedError(f"{command}: error: Invalid --gres-flags specification: {flag}")


_SETTERS = {
    "ntasks": _set_ntasks,
    "nodes": _set_nodes,
    "gpu-bind": _set_gpu_bind,
    "tres-bind": _set_tres_bind,
    "accel-bind": _set_accel_bind,
    "cpu-bind": _set_cpu_bind,
    "gres-flags": _set_gres_flags,
    "extra-node-info": _set_extra,
    "tres-per-task": _set_tres_per_task,
}


def gpu_counts(options: Options) -> dict[str, int]:
    """per_job, per_node, per_socket, per_task: what each option asks for; --gres over --gpus-per-node."""
    counts = {
        key: read_gpu_count(text)[0]
        for key, text in (
            ("per_job", options.gpus),
            ("per_node", options.gpus_per_node),
            ("per_socket", options.gpus_per_socket),
            ("per_task", options.gpus_per_task),
        )
        if text
    }
    found = read_gres(options.gres) if options.gres else None
    # Both make up one list in which the later entry counts; a zero is dropped from it.
    if found and found[0]:
        counts["per_node"] = found[0]
    return counts


def gpu_type(options: Options) -> str | None:
    """The type of GPU asked for, if any."""
    texts = (options.gpus, options.gpus_per_node, options.gpus_per_socket, options.gpus_per_task)
    kinds = [read_gpu_count(text)[1] for text in texts if text]
    found = read_gres(options.gres) if options.gres else None
    return next((kind for kind in [found[1] if found else None, *kinds] if kind), None)
