"""The visible GPUs, and which may use which other's memory, by CUDA and by NVML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from clusterlab.core.p2p import P2pGpu, PeerAccess

# nvml.h nvmlGpuP2PStatus_t, in the words of nvidia-smi topo -p2p.
_STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS"}
# nvml.h nvmlGpuP2PCapsIndex_t
_CAPABILITIES = (("read", 0), ("write", 1), ("nvlink", 2), ("atomics", 3))

Nvml = Callable[[str, str], tuple[tuple[str, str], ...]]
"""NVML's statuses of two GPUs by UUID."""


def visible_gpus() -> tuple[P2pGpu, ...]:
    """The GPUs as CUDA numbers them for this process. Starts CUDA."""
    import torch

    found = []
    for index in range(torch.cuda.device_count()):
        props = torch.cuda.get_device_properties(index)
        found.append(
            P2pGpu(
                index, props.name, f"GPU-{props.uuid}", props.multi_processor_count, props.total_memory
            )
        )  # fmt: skip
    return tuple(found)


def access_table(
    gpus: Sequence[P2pGpu], may: Callable[[int, int], bool], nvml: Nvml
) -> tuple[PeerAccess, ...]:
    """Every ordered pair of GPUs."""
    return tuple(
        PeerAccess(a.index, b.index, bool(may(a.index, b.index)), nvml(a.uuid, b.uuid))
        for a in gpus
        for b in gpus
        if a is not b
    )


def cuda_may(src: int, dst: int) -> bool:
    """cudaDeviceCanAccessPeer."""
    import torch

    return bool(torch.cuda.can_device_access_peer(src, dst))


def nvml_status(src: str, dst: str) -> tuple[tuple[str, str], ...]:
    """What NVML says of two GPUs by UUID; nothing where it cannot be asked (no NVML, MIG)."""
    try:
        import pynvml
    except ImportError:
        return ()
    return _ask(pynvml, src, dst)


def _ask(nvml: Any, src: str, dst: str) -> tuple[tuple[str, str], ...]:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    found = []
    try:
        a, b = nvml.nvmlDeviceGetHandleByUUID(src), nvml.nvmlDeviceGetHandleByUUID(dst)
        for name, number in _CAPABILITIES:
            try:
                status = nvml.nvmlDeviceGetP2PStatus(a, b, number)
            except nvml.NVMLError:
                continue  # an older driver does not know this capability
            found.append((name, _STATUS.get(int(status), "U")))
    except nvml.NVMLError:
        return ()
    finally:
        nvml.nvmlShutdown()
    return tuple(found)
