"""Another count of a step's collectives: what torch's dispatcher sees, whoever calls it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clusterlab.trainers.step import Trainer
from tests.trainers.ranks import Ranks

OPS = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "allreduce_": "all_reduce",
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "alltoall_base_": "all_to_all",
    "send": "send",
    "recv_": "recv",
}
"""Of torch.ops.c10d and torch.ops._c10d_functional, and what we call them."""


class Calls(TorchDispatchMode):
    """Counts (operation, bytes) in the ledger's convention."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        if DTensor in types:
            return NotImplemented  # seen again, on the ranks' parts
        out = func(*args, **(kwargs or {}))
        namespace, _, name = str(func).partition(".")
        name = name.partition(".")[0]
        if namespace in ("c10d", "_c10d_functional") and name in OPS:
            tensors = [t for t in tree_leaves([args, out]) if isinstance(t, torch.Tensor)]
            self.seen[OPS[name], max(t.numel() * t.element_size() for t in tensors)] += 1
        return out


def watching(folder: Path, step: int) -> Callable[[int, Trainer], None]:
    """For ``train(spoil=…)``: count rank 0's calls in ``step``."""

    def watch(rank: int, trainer: Trainer) -> None:
        original = trainer.step

        def watched(number: int) -> float:
            if number != step or rank:
                return original(number)
            with Calls() as calls:
                loss = original(number)
            (folder / "seen.pickle").write_bytes(pickle.dumps(calls.seen))
            return loss

        trainer.step = watched  # type: ignore[method-assign]

    return watch


def assert_nothing_escaped(ranks: Ranks, folder: Path, step: int) -> None:
    """The ledger of rank 0's ``step`` has all that the dispatcher saw, and nothing else."""
    seen = pickle.loads((folder / "seen.pickle").read_bytes())
    assert seen
    made = Counter((e.op, e.size_bytes) for e in ranks.entries[0] if e.step == step)
    assert seen == made
