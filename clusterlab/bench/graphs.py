"""Calls captured in a CUDA graph."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from clusterlab.bench.ops import Call

if TYPE_CHECKING:
    import torch


def captured(call: Call, times: int, stream: torch.cuda.Stream) -> Call:
    """A replay of ``call`` made ``times`` times on ``stream``, which must be the current one and idle.

    ``call`` must have run before: NCCL connects in its first call, and torch makes its communicator.
    """
    import torch

    graph = torch.cuda.CUDAGraph()
    stream.synchronize()
    # Thread-local, as in nccl-tests (src/common.cu BenchTime): torch's own threads ask about events
    # meanwhile. Not torch.cuda.graph(): that collects garbage and empties the allocator's cache each time.
    graph.capture_begin(capture_error_mode="thread_local")
    try:
        for _ in range(times):
            call()
    finally:
        with warnings.catch_warnings():
            # One rank alone may have nothing to do, and a graph of nothing is replayed all the same.
            warnings.filterwarnings("ignore", message="The CUDA Graph is empty")
            graph.capture_end()
    return graph.replay
