"""What one attempt of the search looks for, what is best so far, and how the attempt ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterlab.cost.nccl.communicator import Pattern
from clusterlab.topology.routing.host_graph import PathType


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for. Speeds in MB/s; ``cross_nic`` 2: channels in pairs that swap their NICs."""

    pattern: Pattern
    intra: int
    inter: int
    type_intra: PathType
    type_inter: PathType
    least: int
    most: int
    same_channels: bool
    cross_nic: int = 0


@dataclass(slots=True)
class Best:
    """The best placement so far, over all attempts: what was wanted, channels with their GPUs and NICs."""

    wanted: Wanted
    orders: list[list[int]] = field(default_factory=list)
    nics: list[list[int]] = field(default_factory=list)
    hops: int = 0

    @property
    def channels(self) -> int:
        """How many channels."""
        return len(self.orders)


@dataclass(slots=True)
class Outcome:
    """``perfect``: all channels wanted were found; ``spent``: the budget was used up; visited GPUs."""

    perfect: bool = False
    spent: bool = False
    visited: int = 0
