"""Where a process sits among all that were started, although its launchers contradict each other.

A diagnosis has to join the very ranks that do not fit together: they meet as what the outermost launcher
made of them, and the contradiction is for the diagnosis to name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from clusterlab.core.errors import UsageError
from clusterlab.launch.claims import Claim, Environ, torchrun_claim
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.join import Arrival, arrive

_INNER = re.compile(
    r"RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|(?:GROUP|ROLE)_(?:RANK|WORLD_SIZE)|TORCHELASTIC_.*"
)


@dataclass(frozen=True, slots=True)
class Seat:
    """``arrival`` is how the process meets the others; ``program`` who the program takes itself for.

    They differ where a spawner runs in every task of a launcher: the seat then counts all processes of
    all spawners. ``conflict``: why the launchers do not fit together; None: they do.
    """

    arrival: Arrival
    program: RankIdentity
    conflict: UsageError | None = None


def take_seat(environ: Environ, *, timeout_s: float) -> Seat | None:
    """This process's seat; None when no launcher made it a rank.

    Raises UsageError, an IdentityError among them, where not even the outermost launcher tells enough.
    """
    try:
        arrival = arrive(environ, timeout_s=timeout_s)
    except UsageError as error:  # a conflict, or a variable that holds no number
        return _outermost(environ, error, timeout_s)
    return None if arrival is None else Seat(arrival, arrival.identity)


def _outermost(environ: Environ, conflict: UsageError, timeout_s: float) -> Seat:
    """By the outer launcher alone. Raises ``conflict`` when there is none."""
    try:
        inner = torchrun_claim(environ)
    except UsageError:
        raise conflict from None
    outer = {name: value for name, value in environ.items() if not _INNER.fullmatch(name)}
    if inner is not None:
        outer["CLUSTERLAB_PMIX"] = "off"  # the agent's: its workers must not pass for the agent
    try:
        arrival = arrive(outer, timeout_s=timeout_s)
    except UsageError:
        arrival = None
    if arrival is None:
        raise conflict
    if inner is None:
        return Seat(replace(arrival, environ=environ), arrival.identity, conflict)
    return _spawned(replace(arrival, environ=environ), inner, conflict)


def _spawned(arrival: Arrival, inner: Claim, conflict: UsageError) -> Seat:
    """One of the processes that a spawner in each task started, counted over all tasks."""
    task = arrival.identity
    if not (inner.rank and inner.world_size and inner.local_rank and inner.local_world_size):
        raise conflict
    local, each = inner.local_rank.value, inner.local_world_size.value
    seat = replace(
        task,
        rank=task.rank * each + local,
        world_size=task.world_size * each,
        local_rank=task.local_rank * each + local,
        local_world_size=task.local_world_size * each,
    )
    program = replace(
        task,
        rank=inner.rank.value,
        world_size=inner.world_size.value,
        local_rank=local,
        local_world_size=each,
        source="torchrun",
    )
    return Seat(replace(arrival, identity=seat), program, conflict)
