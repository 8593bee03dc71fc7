"""One algorithm for one collective: when it can run, its rounds, and their closed-form counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.cost.schedules.counts import NOTHING, Counts
from clusterlab.cost.schedules.rounds import Round
from clusterlab.cost.schedules.shape import GroupShape

Requirement = Callable[[GroupShape], str | None]
"""What a shape lacks, or None."""


@dataclass(frozen=True, slots=True)
class Family:
    """``parts(shape, chunks)``: into how many blocks the buffer of S bytes is cut, so that a block is
    S / parts bytes. ``count(shape, size_bytes, chunks)``: closed form, for two ranks and more.

    Blocks by collective: all_reduce, broadcast, reduce: any number; reduce_scatter, all_gather: rank r
    owns blocks r·k … r·k + k-1, k = parts / ranks; all_to_all: blocks of (source·n + destination),
    k = parts / n each; send_recv: block r is rank r's. Root is rank 0.

    ``pipelined``: ``chunks`` matter. ``exact_hops`` tells for which shapes hops are exact; elsewhere
    hops between hosts, and all hops together, are upper bounds. ``source``: where the
    algorithm and its formulas come from.
    """

    collective: str
    algorithm: str
    parts: Callable[[GroupShape, int], int]
    rounds: Callable[[GroupShape, int], Iterator[Round]]
    count: Callable[[GroupShape, float, int], Counts]
    source: str
    requires: Requirement = lambda shape: None
    pipelined: bool = False
    exact_hops: Callable[[GroupShape], bool] = lambda shape: True

    def check(self, shape: GroupShape) -> None:
        """Raises UsageError where this algorithm cannot run on ``shape``."""
        lacking = self.requires(shape)
        if lacking is not None:
            raise UsageError(
                f"{self.collective} by {self.algorithm} cannot run with {shape.ranks} ranks on "
                f"{shape.nodes} nodes, {shape.heads} heads each",
                expected=lacking,
            )

    def counts(self, shape: GroupShape, size_bytes: float, *, chunks: int = 1) -> Counts:
        """The closed form for ``size_bytes`` (nccl-tests' size). UsageError where it cannot run."""
        self.check(shape)
        if chunks < 1:
            raise UsageError(f"{chunks} chunks", expected="at least 1")
        return NOTHING if shape.ranks == 1 else self.count(shape, float(size_bytes), chunks)

    def run(self, shape: GroupShape, *, chunks: int = 1) -> Iterator[Round]:
        """The rounds. UsageError where it cannot run."""
        self.check(shape)
        return iter(()) if shape.ranks == 1 else self.rounds(shape, chunks)


def several_nodes(shape: GroupShape) -> str | None:
    """Algorithms of the network."""
    return None if shape.nodes > 1 else "more than one node"


def one_gpu_per_node(shape: GroupShape) -> str | None:
    """What NCCL asks for PAT."""
    return None if shape.ranks_per_node == 1 else "one rank per node"


def power_of_two(shape: GroupShape) -> str | None:
    """Partners by bit of the rank: ranks and ranks per node must be powers of two."""
    n, g = shape.ranks, shape.ranks_per_node
    if n & (n - 1) or g & (g - 1):
        return "a power of two of ranks, and of ranks per node"
    return None


def head_per_rank(shape: GroupShape) -> str | None:
    """NCCL runs all_gather and reduce_scatter in the network only where each GPU has a NIC."""
    if shape.nodes > 1 and shape.heads != shape.ranks_per_node:
        return "a NIC for every rank of a node"
    return None


def head_per_rank_several_nodes(shape: GroupShape) -> str | None:
    """Both."""
    return several_nodes(shape) or head_per_rank(shape)
