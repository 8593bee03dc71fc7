"""The variables of a record that decide what a rank gets, in groups, each said once. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from clusterlab.binding.records import JoinedRecord
from clusterlab.launch.roll_call import rank_words

_MOST_VALUES = 4

_GROUPS = (
    (
        "GPUs",
        r"(CUDA|ROCR|HIP|NVIDIA|GPU)_.*(DEVICES|DEVICE_ORDER|ORDINAL)|ZE_.*|SLURM_.*GPUS?(_.*)?|SLURM_.*GRES.*",
    ),
    (
        "identity",
        r"(LOCAL_|GROUP_)?(RANK|WORLD_SIZE)|MASTER_(ADDR|PORT)|PMIX?_(RANK|SIZE)|SLURM_(PROCID|LOCALID|NODEID)"
        r"|SLURM_(STEP_)?(NTASKS|NUM_TASKS|NNODES)|OMPI_COMM_WORLD_(LOCAL_)?(RANK|SIZE)|TORCHELASTIC_RUN_ID",
    ),
    (
        "cores",
        r"(SLURM|SBATCH|SRUN)_CPU.*|SLURM_(NTASKS|TASKS)_PER_.*|SLURM_DISTRIBUTION|OMP_(NUM_THREADS|PROC_BIND"
        r"|PLACES)|GOMP_.*|KMP_AFFINITY|MKL_NUM_THREADS",
    ),
    ("network", r"(NCCL|RCCL|GLOO)_.*|UCX_(NET_DEVICES|TLS)|(TP|FI)_.*"),
)


def environment_lines(record: JoinedRecord, wrapped: Callable[[str, str], list[str]]) -> list[str]:
    """A heading for each group with variables, then one paragraph a variable."""
    names = sorted({name for rank in record.ranks for name in rank.env})
    lines: list[str] = []
    for heading, pattern in _GROUPS:
        mine = [name for name in names if re.fullmatch(pattern, name)]
        names = [name for name in names if name not in mine]
        if mine:
            lines.append(f"# {heading}:")
            lines += [line for name in mine for line in wrapped("#   ", _said(record, name))]
    return lines


def _said(record: JoinedRecord, name: str) -> str:
    """``NAME=value``, or which ranks have which value."""
    ranks_of: dict[str, list[int]] = {}
    for rank in record.ranks:
        if name in rank.env:
            ranks_of.setdefault(rank.env[name], []).append(rank.rank)
    if len(ranks_of) == 1:
        ((value, ranks),) = ranks_of.items()
        some = f" ({rank_words(ranks)})" if len(ranks) < len(record.ranks) else ""
        return f"{name}={value}{some}"
    for what in ("rank", "local_rank"):
        if all(rank.env.get(name) == str(getattr(rank, what)) for rank in record.ranks):
            return f"{name}=the {what.replace('_', ' ')}"
    shown = [f"{value} ({rank_words(r)})" for value, r in list(ranks_of.items())[:_MOST_VALUES]]
    more = f" and {len(ranks_of) - _MOST_VALUES} more" if len(ranks_of) > _MOST_VALUES else ""
    return f"{name}={', '.join(shown)}{more}"
