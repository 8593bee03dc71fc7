"""Whether the process that serves the job's store still does: one that is stopped answers nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store


def held_up(store: Store, limit_s: float) -> bool:
    """Whether what serves ``store`` is there and says nothing for ``limit_s``, asked over connections of our
    own: the main thread may be waiting on the other. One that is gone is another matter.
    """
    base = getattr(store, "underlying_store", store)
    clone, host, port = (getattr(base, name, None) for name in ("clone", "host", "port"))
    if clone is None or host is None or port is None:
        return False
    try:
        # The kernel accepts for a process that is stopped.
        socket.create_connection((host, port), limit_s).close()
    except OSError:
        return False
    return not within(limit_s, lambda: clone().check(["clusterlab/here"]))


def silence_of_store(identity: RankIdentity) -> str:
    """What is said of a store that does not answer: who serves it, as ``launch.rendezvous`` has it."""
    who = "rank 0"
    if identity.source == "torchrun":
        who = "torchrun's agent"
    elif identity.source == "slurm":
        who = "rank 0, or the first rank of the first node,"
    return f"the job's store does not answer: {who} is stopped or held up"


def within(limit_s: float, work: Callable[[], object]) -> bool:
    """Do ``work`` for at most ``limit_s``; whether it ended. One that is stopped answers nobody."""

    def quietly() -> None:
        with suppress(RuntimeError):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(limit_s)
    return not thread.is_alive()
