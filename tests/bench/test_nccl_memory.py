"""Memory by NCCL's allocator: whole or not at all, and given back (on GPUs: tests/gpu)."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
import torch

from clusterlab.bench.buffers import Arena
from clusterlab.bench.nccl_memory import nccl_block, nccl_bytes
from clusterlab.bench.options import BenchOptions
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import make_point


class Library:
    """Gives addresses as ncclMemAlloc does, refuses above ``most`` bytes, remembers what came back."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.freed: list[int] = []

    def ncclMemAlloc(self, address: Any, size: ctypes.c_size_t) -> int:
        if size.value > self.most:
            return 1
        ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))[0] = 0x7000
        return 0

    def ncclMemFree(self, address: ctypes.c_void_p) -> int:
        self.freed.append(address.value or 0)
        return 0


def test_a_block_says_where_it_is_and_is_freed_with_its_last_user() -> None:
    library = Library(most=1 << 20)
    block = nccl_block(4096, library)
    assert block is not None
    told = block.__cuda_array_interface__
    assert (told["shape"], told["data"], told["typestr"]) == ((4096,), (0x7000, False), "|u1")
    user = [block]
    del block
    gc.collect()
    assert library.freed == []
    user.clear()
    gc.collect()
    assert library.freed == [0x7000]


@pytest.mark.parametrize("library", [Library(most=1024), object()], ids=["refuses", "too old"])
def test_no_block_where_the_library_gives_none(library: object) -> None:
    assert nccl_block(4096, library) is None


def test_without_a_loaded_nccl_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusterlab.bench.nccl_memory.loaded_library", lambda: None)
    assert nccl_bytes(4096, torch.device("cpu")) is None


POINTS = [make_point("all_reduce", 1 << n, dtype("float32"), 2) for n in (4, 12)]


def test_on_a_cpu_it_is_nobodys() -> None:
    arena = Arena(POINTS, torch.device("cpu"), memory="nccl")
    assert arena.memory is None
    assert arena.buffers(POINTS[-1], 0).send.numel() == 1024


def test_an_unknown_allocator_is_refused() -> None:
    with pytest.raises(UsageError, match=r"memory.*'ncll'.*nccl"):
        BenchOptions(memory="ncll")
