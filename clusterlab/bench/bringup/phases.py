"""From a store to the second collective, each step timed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from clusterlab.bench.bringup.clock import Marks
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.errors import WrongDataError
from clusterlab.launch.devices import claim_device
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup, Store


def bring_up(
    identity: RankIdentity,
    store: Store,
    backend: str,
    marks: Marks,
    watchdog: Watchdog,
    *,
    timeout_s: float,
) -> torch.device:
    """Take the device, make the communicator, call twice; the device. Collective.

    The communicator is made at once, not by the first call, so that each has its own time. Raises what
    ``claim_device`` raises; WrongDataError when the sum is wrong; the watchdog ends what hangs.
    """
    import torch

    device = torch.device("cpu")
    with watchdog.guard(0, "device"):
        if backend == "nccl":
            # torch would return before NCCL is ready, and the first call would wait for it.
            os.environ.setdefault("TORCH_NCCL_USE_COMM_NONBLOCKING", "0")
            marks.pause()
            ordinal = claim_device(identity, store, environ=os.environ, timeout_s=timeout_s)
            device = torch.device("cuda", ordinal)
            torch.ones(1, device=device).add_(1.0)  # CUDA's context and torch's first kernel
            finish(device)
            marks.end("device")
    ones = torch.ones(1, device=device)
    with watchdog.guard(1, "communicator"):
        marks.pause()
        init_process_group(
            identity,
            store,
            backend,
            timeout_s=timeout_s,
            device=device if backend == "nccl" else None,
        )
        marks.end("communicator")
    for number, phase in enumerate(("first_call", "second_call"), start=2):
        with watchdog.guard(number, phase.replace("_", " ")):
            marks.pause()
            call(ones, None)
            marks.end(phase)
    expected = float(identity.world_size) ** 2
    if float(ones) != expected:
        raise WrongDataError(
            f"two all_reduce of ones over {identity.world_size} ranks gave {float(ones)}",
            where=f"rank {identity.rank} on {identity.host}",
            expected=f"{expected}",
        )
    return device


def call(tensor: torch.Tensor, group: ProcessGroup | None) -> None:
    """One all_reduce of ``tensor`` over ``group`` (None: all ranks), until it is done."""
    import torch.distributed as dist

    dist.all_reduce(tensor, group=group)
    finish(tensor.device)


def finish(device: torch.device) -> None:
    """Wait for the device; nothing on a CPU."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
