"""What the tuning's arithmetic passes around: a cell of the table, what it is computed for, its entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.nccl.constants import Constants, constants_for
from clusterlab.cost.nccl.overrides import Overrides


class Cell(NamedTuple):
    """A place in the tuning table, in our words."""

    collective: str
    algorithm: str
    protocol: str


class Setting(NamedTuple):
    """A communicator, its release's constants and the user's variables."""

    comm: Communicator
    constants: Constants
    overrides: Overrides

    @property
    def sm(self) -> int:
        """Compute capability; 0 where there is none."""
        return self.comm.compute_capability or 0

    @property
    def generation(self) -> str:
        """The row of the constants' per-generation tables."""
        return self.constants.generation(self.sm)


def setting_of(comm: Communicator, overrides: Overrides) -> Setting:
    """With the constants of ``comm``'s library and version."""
    return Setting(comm, constants_for(comm.version, comm.library), overrides)


@dataclass(frozen=True, slots=True)
class Entry:
    """What NCCL expects: ``latency_us`` plus the size over ``algbw_GBps``. An algbw of 0: not used."""

    latency_us: float
    algbw_GBps: float


NOTHING = Entry(0.0, 0.0)
