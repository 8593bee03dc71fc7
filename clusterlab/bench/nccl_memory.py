"""GPU memory from NCCL's own allocator, as nccl-tests takes it.

ncclMemAlloc (NCCL 2.19) gives memory that another process can map. Of such memory NCCL registers what a CUDA
graph of its calls uses, and then copies straight between the ranks' buffers; of a framework's ordinary memory
it cannot, and copies through buffers of its own (user guide, "User Buffer Registration").
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any

from clusterlab.bench.witness.library import loaded_library

if TYPE_CHECKING:
    import torch


class Block:
    """``size_bytes`` of GPU memory at ``address``, freed with the last tensor on it."""

    def __init__(self, library: Any, address: int, size_bytes: int) -> None:
        """Own what ncclMemAlloc of ``library`` has returned."""
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }
        # Not at exit: the driver may be gone by then, and frees everything itself.
        weakref.finalize(self, library.ncclMemFree, ctypes.c_void_p(address)).atexit = False


def nccl_block(size_bytes: int, library: Any) -> Block | None:
    """Memory on the current GPU; None where ``library`` has no allocator or it refuses."""
    if not hasattr(library, "ncclMemAlloc"):
        return None
    address = ctypes.c_void_p()
    if library.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(size_bytes)) != 0:
        return None
    return Block(library, address.value, size_bytes) if address.value else None


def nccl_bytes(size_bytes: int, device: torch.device) -> torch.Tensor | None:
    """A tensor of bytes on ``device``, the current GPU; None where NCCL gives none."""
    import torch

    loaded = loaded_library()
    if loaded is None or size_bytes == 0:
        return None
    block = nccl_block(size_bytes, ctypes.CDLL(loaded.path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    if block is None:
        return None
    return torch.as_tensor(block, dtype=torch.uint8, device=device)
