"""How points are measured: the few choices a user makes."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown

TIMING_MODES: tuple[str, ...] = ("eager", "graph", "direct")
"""``eager``: one torch.distributed call after the other, which is what a training loop feels. ``graph``:
replays of a CUDA graph, which is what the fabric does. ``direct``: NCCL's own calls, as nccl-tests' loop.
"""

MEMORIES: tuple[str, ...] = ("nccl", "torch")
"""Whose GPU memory is sent and received: NCCL's allocator's, as in nccl-tests, or torch's, as in training."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """How each point is measured; nccl-tests' flag in brackets.

    ``iterations`` (-n) and ``warmup`` (-w) are calls per point; the per-iteration pass makes as many
    calls again. ``iterations`` None: as many as it takes until the median's 95 % interval is narrower than
    ``median_within`` (a share of it), for at most ``budget_s`` (s) a point. ``warmup`` None: by size.
    ``check`` (-c) verifies one call's data; wrong data ends the sweep unless ``keep_going``. ``deadline_s``
    (-T) is the longest one point may take; 0 means none. ``aggregated`` (-m) calls make one group;
    ``blocking`` (-z): the host waits after each. ``graph_launches`` (-G) is how often a graph is replayed
    in the loop; None: as often as iterations ask for. ``memory``: one of MEMORIES, for GPUs.

    ``corrupt`` is for tests only: (rank, index) of one received element that is overwritten between
    the checked call and the check, to prove that the check sees it.
    """

    iterations: int | None = 20
    warmup: int | None = 5
    check: bool = True
    deadline_s: float = 600.0
    median_within: float = 0.02
    budget_s: float = 1.0
    aggregated: int = 1
    blocking: bool = False
    graph_launches: int | None = None
    keep_going: bool = False
    memory: str = "nccl"
    corrupt: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 1:
            raise UsageError(f"{self.iterations}", where="iterations", expected="at least 1")
        if self.warmup is not None and self.warmup < 0:
            raise UsageError(f"{self.warmup}", where="warmup", expected="0 or more")
        if self.memory not in MEMORIES:
            raise unknown("memory", self.memory, MEMORIES)
        if not 0 <= self.deadline_s < 1e9:
            raise UsageError(
                f"{self.deadline_s:g}", where="deadline_s", expected="0 or more seconds"
            )
        for name, value in (
            ("aggregated", self.aggregated),
            ("graph_launches", self.graph_launches),
        ):
            if value is not None and value < 1:
                raise UsageError(f"{value}", where=name, expected="at least 1")
        if not 0 < self.median_within < 1:
            raise UsageError(
                f"{self.median_within:g}", where="median_within", expected="a share from 0 to 1"
            )
        if not 0 < self.budget_s < 1e9:
            raise UsageError(f"{self.budget_s:g}", where="budget_s", expected="seconds above 0")
