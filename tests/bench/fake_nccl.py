"""NCCL's calls on host memory, every rank a thread: what nccl.h says each does.

Names and arguments are those of nccl4py's ``nccl.bindings.nccl``, tried with the real module on a libnccl
that prints what it is given.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections import defaultdict
from collections.abc import Callable

import torch

TORCH = {
    0: torch.int8,
    1: torch.uint8,
    2: torch.int32,
    4: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    9: torch.bfloat16,
}
REDUCE = {0: torch.sum, 1: torch.prod, 2: torch.amax, 3: torch.amin}


def memory(address: int, count: int, dtype: int) -> torch.Tensor:
    kind = TORCH[dtype]
    raw = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
    return torch.frombuffer(raw, dtype=kind)


class World:
    """What ranks share: wires between two, a board for what all call together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.wires = defaultdict(queue.Queue)
        self.board = [None] * size
        self.barrier = threading.Barrier(size)

    def run(self, ranks: list[Callable[[], object]]) -> None:
        """Every rank's calls at the same time; raises what one of them raises."""
        failed = []

        def one(call):
            try:
                call()
            except Exception as error:
                failed.append(error)
                self.barrier.abort()

        threads = [threading.Thread(target=one, args=(call,)) for call in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]


class FakeNccl:
    """One rank's module. ``comm`` and ``stream`` must be handed through."""

    def __init__(self, world: World, rank: int, comm: object, stream: int, version: int) -> None:
        self._world, self._rank, self._comm, self._stream = world, rank, comm, stream
        self._version = version
        self._depth = 0
        self._waiting = []
        self.groups = 0

    def get_version(self):
        return self._version

    def group_start(self):
        self._depth += 1

    def group_end(self):
        self._depth -= 1
        assert self._depth >= 0
        if not self._depth:
            self.groups += 1
            calls, self._waiting = self._waiting, []
            self._run(calls)

    def all_reduce(self, send, recv, count, dtype, op, comm, stream):
        self._call("all_reduce", send, recv, count, dtype, op, comm, stream)

    def reduce_scatter(self, send, recv, recvcount, dtype, op, comm, stream):
        self._call("reduce_scatter", send, recv, recvcount, dtype, op, comm, stream)

    def reduce(self, send, recv, count, dtype, op, root, comm, stream):
        self._call("reduce", send, recv, count, dtype, op, comm, stream, root)

    def all_gather(self, send, recv, sendcount, dtype, comm, stream):
        self._call("all_gather", send, recv, sendcount, dtype, None, comm, stream)

    def broadcast(self, send, recv, count, dtype, root, comm, stream):
        self._call("broadcast", send, recv, count, dtype, None, comm, stream, root)

    def allto_all(self, send, recv, count, dtype, comm, stream):
        assert self._version >= 22800, "this NCCL does not have it"
        self._call("all_to_all", send, recv, count, dtype, None, comm, stream)

    def gather(self, send, recv, count, dtype, root, comm, stream):
        assert self._version >= 22800, "this NCCL does not have it"
        self._call("gather", send, recv, count, dtype, None, comm, stream, root)

    def scatter(self, send, recv, count, dtype, root, comm, stream):
        assert self._version >= 22800, "this NCCL does not have it"
        self._call("scatter", send, recv, count, dtype, None, comm, stream, root)

    def send(self, address, count, dtype, peer, comm, stream):
        self._call("send", address, None, count, dtype, None, comm, stream, peer)

    def recv(self, address, count, dtype, peer, comm, stream):
        self._call("recv", None, address, count, dtype, None, comm, stream, peer)

    def _call(self, name, send, recv, count, dtype, op, comm, stream, other=None):
        assert comm is self._comm
        assert stream == self._stream
        self._waiting.append((name, send, recv, count, dtype, op, other))
        if not self._depth:
            calls, self._waiting = self._waiting, []
            self._run(calls)

    def _run(self, calls):
        """What is sent is read before anything is received, as far as it is in one group."""
        for name, send, _, count, dtype, _, peer in calls:
            if name == "send":
                self._world.wires[self._rank, peer].put(memory(send, count, dtype).clone())
        for name, _, recv, count, dtype, _, peer in calls:
            if name == "recv":
                data = self._world.wires[peer, self._rank].get(timeout=5)
                assert data.numel() == count
                memory(recv, count, dtype).copy_(data)
        for call in calls:
            if call[0] not in ("send", "recv"):
                self._together(call)

    def _together(self, call):
        world = self._world
        world.board[self._rank] = call
        if world.barrier.wait(timeout=5) == 0:
            collective(world.board)
        world.barrier.wait(timeout=5)


def collective(calls: list[tuple]) -> None:
    """Move the data of one collective that all ranks called alike."""
    n = len(calls)
    assert len({(c[0], *c[3:]) for c in calls}) == 1, "ranks disagree"
    name, _, _, count, dtype, op, root = calls[0]
    whole_send = name in ("all_to_all", "reduce_scatter")
    sends = {
        r: memory(
            c[1], count * n if whole_send or (name == "scatter" and r == root) else count, dtype
        ).clone()
        for r, c in enumerate(calls)
        if name not in ("scatter", "broadcast") or r == root
    }
    for r, c in enumerate(calls):
        part = slice(r * count, (r + 1) * count)
        match name:
            case "all_reduce" | "reduce" | "reduce_scatter":
                result = REDUCE[op](torch.stack(list(sends.values())), 0).to(TORCH[dtype])
                result = result[part] if name == "reduce_scatter" else result
            case "all_gather" | "gather":
                result = torch.cat(list(sends.values()))
            case "all_to_all":
                result = torch.cat([s[part] for s in sends.values()])
            case "broadcast":
                result = sends[root]
            case "scatter":
                result = sends[root][part]
        if name not in ("reduce", "gather") or r == root:
            memory(c[2], result.numel(), dtype).copy_(result)
