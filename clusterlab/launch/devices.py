"""Which GPU a rank drives, agreed on by all ranks before NCCL sees any of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from clusterlab.core.errors import ClusterlabError
from clusterlab.launch.claims import Environ, said
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.refusals import DeviceRecord, launcher_world_size, refuse
from clusterlab.launch.roll_call import Record, RefusedError, roll_call
from clusterlab.launch.selection import select_device

if TYPE_CHECKING:
    from torch.distributed import Store

__all__ = ["agree_on_devices", "claim_device", "device_record", "select_device"]


def claim_device(
    identity: RankIdentity, store: Store, *, environ: Environ, timeout_s: float
) -> int:
    """Choose and set this rank's CUDA device; its ordinal. Collective: every rank calls it.

    Raises RefusedError on every rank, with the ranks concerned and the reason, when one of them sees no
    device for itself, when two drive one GPU, or when the world size is not what the launcher started.
    """
    import torch

    visible_count = torch.cuda.device_count()
    ordinal, gpu, problem = None, None, None
    try:
        gpus_on_node = said(environ, "SLURM_GPUS_ON_NODE")
        ordinal = select_device(
            identity,
            visible_count,
            gpus_on_node=gpus_on_node.value if gpus_on_node else None,
        )
        torch.cuda.set_device(ordinal)
        gpu = _hardware_name(ordinal)
    except ClusterlabError as error:
        problem = error.message  # told at the roll call, so that no rank waits for this one
    except RuntimeError as error:  # torch's name for every CUDA error
        problem = f"CUDA device {ordinal}: {str(error).partition(chr(10))[0]}"
    record = device_record(
        identity, environ, visible_count=visible_count, ordinal=ordinal, gpu=gpu, problem=problem
    )
    agree_on_devices(identity, store, record, timeout_s=timeout_s)
    if ordinal is None:
        raise AssertionError("a rank without a device passed the roll call")
    return ordinal


def device_record(
    identity: RankIdentity,
    environ: Environ,
    *,
    visible_count: int,
    ordinal: int | None = None,
    gpu: str | None = None,
    problem: str | None = None,
) -> DeviceRecord:
    """This rank's record, with what its launcher says of the world size."""
    launcher = launcher_world_size(environ)
    return DeviceRecord(
        rank=identity.rank,
        host=identity.host,
        pid=os.getpid(),
        world_size=identity.world_size,
        visible_count=visible_count,
        ordinal=ordinal,
        gpu=gpu,
        problem=problem,
        launcher_world_size=launcher.value if launcher else None,
        launcher_variable=launcher.variable if launcher else None,
    )


def agree_on_devices(
    identity: RankIdentity, store: Store, record: DeviceRecord, *, timeout_s: float
) -> None:
    """Join all ranks' records over the store and raise on every rank what ``refuse`` says of them."""

    def judge(records: Sequence[Record]) -> RefusedError | None:
        return refuse([DeviceRecord(**r) for r in records])

    roll_call(store, identity, "devices", asdict(record), judge, timeout_s=timeout_s)


def _hardware_name(ordinal: int) -> str:
    """The UUID of CUDA device ``ordinal``: the same hardware has one name whatever the mask."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(ordinal).uuid}"
