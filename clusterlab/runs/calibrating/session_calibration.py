"""The host's constants for a sweep whose ranks are already together: those kept, or measured by them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from clusterlab.launch.identity import RankIdentity
from clusterlab.runs.calibrating.calibration_run import measure_times
from clusterlab.runs.calibrating.selfcal import fit_and_keep, kept_calibration
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.topology.host import read_host

if TYPE_CHECKING:
    from torch.distributed import Store

    from clusterlab.cost.calibration import Calibration

_KEY = "clusterlab/calibrate"


class Asked(Protocol):
    """What a run is configured with, as far as constants go: a SweepConfig, for one."""

    @property
    def backend(self) -> str:
        """gloo or nccl."""

    @property
    def fabric(self) -> str | None:
        """A design that was named."""


def agreed_calibration(identity: RankIdentity, store: Store, config: Asked) -> Calibration | None:
    """The constants for rank 0's predictions; None on other ranks and where none are needed.

    Collective: rank 0 looks whether this host was calibrated for so many ranks, and if not all ranks
    measure together. A named fabric and NCCL need none.
    """
    if config.backend != "gloo" or config.fabric not in (None, THIS_HOST):
        return None
    facts = read_host()
    if identity.rank == 0:
        kept = kept_calibration(facts, identity.world_size, config.backend, progress=_say)
        store.set(_KEY, "0" if kept else "1")
        if kept:
            return kept
        _say(f"calibrating {identity.world_size} ranks on {facts.description}, once")
    elif store.get(_KEY) == b"0":
        return None
    times = measure_times(identity, store)
    if identity.rank != 0:
        return None
    return fit_and_keep(times, facts, identity.world_size, config.backend, progress=_say)


def _say(text: str) -> None:
    print(f"clusterlab: {text}", file=sys.stderr, flush=True)
