"""All ranks begin an attempt together: rank 0 opens it, or says why not to all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from clusterlab.core.errors import ClusterlabError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.roll_call import Record, roll_call
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S

if TYPE_CHECKING:
    from torch.distributed import Store


def begin_attempt(
    identity: RankIdentity,
    store: Store,
    open_or_refuse: Callable[[Sequence[Record]], ClusterlabError | None],
) -> None:
    """``open_or_refuse`` runs on rank 0, while the others wait; what it returns is raised on all."""
    roll_call(
        store,
        identity,
        "attempt",
        {"rank": identity.rank, "host": identity.host, "pid": os.getpid()},
        open_or_refuse,
        timeout_s=JOIN_TIMEOUT_S,
    )
