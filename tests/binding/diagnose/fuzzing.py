"""Records made at random: strange environments, and sound records with parts dropped, swapped or doubled."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.binding.diagnose.placements import healthy_placement

_NUMBERS = (
    "0",
    "1",
    "7",
    "8",
    "-1",
    "",
    " ",
    "4(x2)",
    "3,1",
    "1e9",
    "٣",
    "99999999999999999999",
    "a",
    "0x1",
)
_MASKS = (
    "",
    "0",
    "0,1",
    "0,0",
    "-1",
    "0-3",
    "9",
    "GPU-",
    "MIG-",
    "GPU-1,0",
    "all",
    "NoDevFiles",
    "0,",
    "\n",
    "１",
)
_HOSTS = (
    "n0",
    "n[0-3]",
    "n[0",
    "n]",
    "127.0.0.1",
    "::1",
    "",
    "a,b",
    "n[0-99999999]",
    "[::1]",
    "n0\x00",
)
_SPECS = (
    "^",
    "=",
    "^=",
    "mlx5",
    "mlx5_1",
    "=mlx5_0,=mlx5_1",
    "^lo,docker",
    "eth0",
    "10.0.0.1",
    ",",
    ":1",
)
_TEXTS = (
    "",
    "invalid device ordinal",
    "EADDRINUSE",
    "x" * 5000,
    "int() 'GPU-'",
    "PMIX ERROR: ",
    "\x1b[31m",
)
_VARIABLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "LOCAL_WORLD_SIZE",
            "GROUP_RANK",
            "MASTER_PORT",
            "OMP_NUM_THREADS",
            "SLURM_PROCID",
            "SLURM_LOCALID",
            "SLURM_NTASKS",
            "SLURM_STEP_NUM_TASKS",
            "SLURM_STEP_ID",
            "SLURM_JOB_ID",
            "SLURM_HET_SIZE",
            "SLURM_CPUS_PER_TASK",
            "SLURM_TASKS_PER_NODE",
            "SLURM_GPUS_ON_NODE",
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "PMI_RANK",
            "PMI_SIZE",
            "PMIX_RANK",
            "FLUX_TASK_LOCAL_ID",
            "PALS_LOCAL_RANKID",
            "TORCHELASTIC_RUN_ID",
        ),
        _NUMBERS,
    ),
    **dict.fromkeys(
        (
            "CUDA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "HIP_VISIBLE_DEVICES",
            "ZE_AFFINITY_MASK",
            "NVIDIA_VISIBLE_DEVICES",
            "SLURM_STEP_GPUS",
            "SLURM_JOB_GPUS",
        ),
        _MASKS,
    ),
    **dict.fromkeys(
        ("MASTER_ADDR", "SLURM_JOB_NODELIST", "SLURM_STEP_NODELIST", "SLURM_NODELIST"), _HOSTS
    ),
    **dict.fromkeys(
        ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES"), _SPECS
    ),
    "SLURM_GPU_BIND": (
        "closest",
        "map_gpu:9",
        "mask_gpu:0x",
        "none",
        "single:1",
        "map_gpu:" + "1," * 500,
    ),
    "SLURM_CPU_BIND_LIST": ("0x1", "0xF,0xF0", ""),
    "CUDA_DEVICE_ORDER": ("PCI_BUS_ID", "FASTEST_FIRST", ""),
    "ZE_FLAT_DEVICE_HIERARCHY": ("FLAT", "COMPOSITE", "x"),
}
_STRANGE: tuple[Any, ...] = (
    None,
    "",
    -1,
    0,
    10**30,
    1.5,
    True,
    [],
    {},
    [[]],
    "0-",
    "9-1",
    {"a": {}},
    "\x00",
)


def random_environment(dice: random.Random) -> dict[str, str]:
    """Variables that launchers and libraries use, with values they never should have."""
    names = dice.sample(sorted(_VARIABLES), dice.randrange(0, 14))
    return {name: dice.choice(_VARIABLES[name]) for name in names}


def fuzzed_record(seed: int) -> Any:
    """A record in plain data that may be nonsense in any place."""
    dice = random.Random(seed)
    record = copy.deepcopy(healthy_placement(dice.randrange(40)))
    record["ranks"] = record["ranks"][:6]
    for rank in record["ranks"]:
        if dice.random() < 0.7:
            rank["env"] = {**rank["env"], **random_environment(dice)}
        if dice.random() < 0.3:
            rank["error"] = dice.choice(_TEXTS)
        if dice.random() < 0.3:
            rank["selected_device"] = dice.choice([-1, 0, 3, 99])
        if dice.random() < 0.2:
            rank["visible"] = [dice.choice(rank["visible"]), "0000:ff:00.0"]
    for _ in range(dice.choice([0, 0, 1, 2, 5])):
        _spoil(dice, record)
    return record


def _spoil(dice: random.Random, data: Any) -> None:
    """Replace, drop or double one part somewhere in ``data``."""
    while isinstance(data, (dict, list)) and data:
        key = dice.choice(list(data)) if isinstance(data, dict) else dice.randrange(len(data))
        inner = data[key]
        if isinstance(inner, (dict, list)) and inner and dice.random() < 0.7:
            data = inner
            continue
        action = dice.random()
        if action < 0.3:
            del data[key]
        elif action < 0.5 and isinstance(data, list):
            data.append(copy.deepcopy(inner))
        else:
            data[key] = dice.choice(_STRANGE)
        return
