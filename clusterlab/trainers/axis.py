"""A rank's process group along one axis of the mesh, and the collectives on it; the ledger sees each.

Groups of one rank make no calls at all. Tensors must be contiguous; those of a call are kept until its wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.trainers.completion import note_end
from clusterlab.trainers.config import MeshConfig
from clusterlab.trainers.ledger import Ledger, OpenEntry
from clusterlab.trainers.mesh import AXES, groups_of

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup


@dataclass(frozen=True, slots=True)
class Pending:
    """A collective under way. ``wait`` before its result is used."""

    wait: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Axis:
    """``ranks`` in order along the axis; ``index``: this rank's place among them."""

    name: str
    ranks: tuple[int, ...]
    index: int
    group: ProcessGroup | None
    ledger: Ledger

    @property
    def size(self) -> int:
        """How many ranks."""
        return len(self.ranks)

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, in place."""
        self._all_reduce(tensor, at_once=True).wait()
        return tensor

    def start_all_reduce(self, tensor: torch.Tensor) -> Pending:
        """The sum over the ranks, in place, while something else goes on."""
        return self._all_reduce(tensor)

    def _all_reduce(self, tensor: torch.Tensor, *, at_once: bool = False) -> Pending:
        import torch.distributed as dist

        def call() -> Any:
            return dist.all_reduce(tensor, group=self.group, async_op=True)

        return self._start("all_reduce", tensor, call, at_once=at_once)

    def all_gather(self, part: torch.Tensor) -> torch.Tensor:
        """Every rank's part, one after the other along dimension 0."""
        whole = part.new_empty((part.shape[0] * self.size, *part.shape[1:]))
        self._all_gather(whole, part, at_once=True).wait()
        return whole

    def start_all_gather(self, whole: torch.Tensor, part: torch.Tensor) -> Pending:
        """As ``all_gather`` into ``whole``, while something else goes on."""
        return self._all_gather(whole, part)

    def _all_gather(
        self, whole: torch.Tensor, part: torch.Tensor, *, at_once: bool = False
    ) -> Pending:
        import torch.distributed as dist

        if self.size == 1:
            whole.copy_(part)

        def call() -> Any:
            made = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
            return made(whole, part, group=self.group, async_op=True)

        return self._start("all_gather", whole, call, at_once=at_once)

    def reduce_scatter(self, whole: torch.Tensor) -> torch.Tensor:
        """This rank's part along dimension 0 of the sum over the ranks."""
        part = whole.new_empty((whole.shape[0] // self.size, *whole.shape[1:]))
        self._reduce_scatter(part, whole, at_once=True).wait()
        return part

    def start_reduce_scatter(self, part: torch.Tensor, whole: torch.Tensor) -> Pending:
        """As ``reduce_scatter`` into ``part``, while something else goes on."""
        return self._reduce_scatter(part, whole)

    def _reduce_scatter(
        self, part: torch.Tensor, whole: torch.Tensor, *, at_once: bool = False
    ) -> Pending:
        import torch.distributed as dist

        if self.size == 1:
            part.copy_(whole)

        def call() -> Any:
            made = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
            return made(part, whole, group=self.group, async_op=True)

        return self._start("reduce_scatter", whole, call, at_once=at_once)

    def all_to_all(
        self,
        sent: torch.Tensor,
        sends: Sequence[int] | None = None,
        receives: Sequence[int] | None = None,
    ) -> torch.Tensor:
        """Rows of ``sent`` to the ranks in order, ``sends`` each (None: equally many), and what comes back.

        The ledger's bytes are those of the larger of both sides of this rank.
        """
        import torch.distributed as dist

        if self.size == 1:
            return sent
        rows = sent.shape[0] if receives is None else sum(receives)
        received = sent.new_empty((rows, *sent.shape[1:]))
        larger = sent if sent.numel() >= received.numel() else received
        name = "all_to_all" if sends is None else "all_to_all_v"
        splits: dict[str, Any] = {}
        if sends is not None and receives is not None:
            splits = {"output_split_sizes": list(receives), "input_split_sizes": list(sends)}
        self._start(
            name,
            larger,
            lambda: dist.all_to_all_single(
                received, sent, group=self.group, async_op=True, **splits
            ),
            at_once=True,
        ).wait()
        return received

    def broadcast(self, tensor: torch.Tensor, root: int = 0) -> None:
        """The values of the rank at index ``root``, in place."""
        import torch.distributed as dist

        self._start(
            "broadcast",
            tensor,
            lambda: dist.broadcast(tensor, self.ranks[root], group=self.group, async_op=True),
            at_once=True,
        ).wait()

    def send(self, tensor: torch.Tensor, index: int) -> Pending:
        """To the rank at ``index``."""
        import torch.distributed as dist

        def call() -> Any:
            return dist.isend(tensor, self.ranks[index], self.group)

        return self._start("send", tensor, call, peer=index)

    def receive(self, tensor: torch.Tensor, index: int) -> Pending:
        """From the rank at ``index``, into ``tensor``."""
        import torch.distributed as dist

        def call() -> Any:
            return dist.irecv(tensor, self.ranks[index], self.group)

        return self._start("recv", tensor, call, peer=index)

    def _start(
        self,
        op: str,
        tensor: torch.Tensor,
        call: Callable[[], Any],
        *,
        at_once: bool = False,
        peer: int | None = None,
    ) -> Pending:
        """``tensor``: the one whose bytes count. ``at_once``: it is waited for now."""
        if self.size == 1:
            return Pending(lambda: None)
        entry = noted(self, op, tensor)
        work = call()
        self.ledger.issued(entry)
        if not at_once:
            note_end(self.ledger, entry, work, self.name if peer is None else f"{op} {peer}")
        # Work that something has waited for no longer keeps its tensors: torch's allocator would hand them
        # out again. The closure does.
        kept = [call]

        def wait() -> None:
            self.ledger.waiting(entry)
            work.wait()
            self.ledger.seen(entry, at_once=at_once)
            kept.clear()

        return Pending(wait)


def noted(axis: Axis, op: str, tensor: torch.Tensor, *, times: int = 1) -> OpenEntry:
    """A call along ``axis`` begins, in the ledger; its bytes are those of ``times`` ``tensor``."""
    size_bytes = times * tensor.numel() * tensor.element_size()
    dtype = str(tensor.dtype).removeprefix("torch.")
    return axis.ledger.begin(op, axis.name, axis.ranks, size_bytes, dtype)


def open_axes(mesh: MeshConfig, rank: int, ledger: Ledger) -> dict[str, Axis]:
    """An Axis for each of AXES. Collective: every rank of the world makes all groups in the same order."""
    import torch.distributed as dist

    made: dict[tuple[int, ...], Any] = {}
    axes = {}
    for name in AXES:
        for ranks in groups_of(name, mesh):
            if len(ranks) > 1 and ranks not in made:
                made[ranks] = dist.new_group(list(ranks))
            if rank in ranks:
                axes[name] = Axis(name, ranks, ranks.index(rank), made.get(ranks), ledger)
    return axes
