"""Make, use and destroy communicators again and again, and see what each leaves behind."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clusterlab.bench.bringup.phases import call
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.bringup import Repeated

if TYPE_CHECKING:
    import torch

FIRST_POINT = 10
"""The watchdog's number of the first communicator: the phases before have the smaller ones."""


def new_group() -> Any:
    """A process group of all ranks. Under NCCL torch may split it off the default one: NCCL's log says."""
    import torch.distributed as dist

    return dist.new_group()


def destroy_group(group: Any) -> None:
    """Destroy what ``new_group`` made."""
    import torch.distributed as dist

    dist.destroy_process_group(group)


def repeat_communicators(
    times: int,
    device: torch.device,
    watchdog: Watchdog,
    *,
    create: Callable[[], Any] = new_group,
    destroy: Callable[[Any], None] = destroy_group,
) -> Repeated:
    """``times`` times create, one all_reduce, destroy; usage is sampled after each. Collective.

    The all_reduce is what really connects ranks. Python's own garbage is collected before each sample.
    """
    import torch

    ones = torch.ones(1, device=device)
    spans: tuple[list[float], list[float], list[float]] = ([], [], [])
    usage = [_usage(device)]
    gc.collect()
    gc.freeze()  # a collection then looks at what the loop made, not at all of torch
    try:
        for number in range(times):
            with watchdog.guard(FIRST_POINT + number, f"communicator {number + 1} of {times}"):
                marks = [time.perf_counter()]
                group = create()
                marks.append(time.perf_counter())
                call(ones, group)
                marks.append(time.perf_counter())
                destroy(group)
                del group
                marks.append(time.perf_counter())
            for span, begin, end in zip(spans, marks[:-1], marks[1:], strict=True):
                span.append(end - begin)
            gc.collect()
            usage.append(_usage(device))
    finally:
        gc.unfreeze()
    columns = {name: tuple(sample[name] for sample in usage) for name in usage[0]}
    create_s, first_call_s, destroy_s = (tuple(span) for span in spans)
    return Repeated(create_s, first_call_s, destroy_s, columns)


def _usage(device: torch.device) -> dict[str, float]:
    """This process's resident memory, descriptors and threads; used memory of the whole GPU."""
    import psutil
    import torch

    me = psutil.Process()
    found: dict[str, float] = {}
    if device.type == "cuda":
        free, whole = torch.cuda.mem_get_info(device)
        found["device_bytes"] = float(whole - free)
    found["rss_bytes"] = float(me.memory_info().rss)
    found["fds"] = float(me.num_fds())
    found["threads"] = float(me.num_threads())
    return found
