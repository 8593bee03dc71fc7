"""Something to be done by all ranks of a run that is no sweep: forked here, or started by a launcher.

A run directory is opened once, every rank does its part, and the end is told once: by this process where
it forked the ranks, by rank 0 where a launcher started them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.lease import beating
from clusterlab.records.run_dir import RunDir
from clusterlab.runs.directory import given_run_path
from clusterlab.runs.ending import Ending
from clusterlab.runs.local_ranks import local_world_size, meet_here
from clusterlab.runs.stopped import finish_stopped
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S

if TYPE_CHECKING:
    from torch.distributed import Store

    from clusterlab.launch.join import Arrival
    from clusterlab.launch.local_rank import OpenStore

_PATH_KEY = "clusterlab/run_dir"


@dataclass(frozen=True, slots=True)
class Work:
    """What all ranks are to do.

    ``check`` raises UsageError for so many ranks, before a directory is made. ``rank_main`` is one rank's
    part; its result is the rank's exit code. ``tell_end`` says how the run ended, given its path, the exit
    code so far and a message; its result is the exit code of all. Ranks that are asked to stop get
    ``grace_s``. Signals of ``relay`` that reach the process that forked the ranks are passed on to them.
    ``prepare`` is called before ranks are forked: what it imports they have. ``alone`` raises where ranks
    that are all forked here, on one host, cannot do it; also before a directory is made.
    """

    backend: str
    ranks: int | None
    check: Callable[[int], object]
    open_run: Callable[[], RunDir]
    rank_main: Callable[[RankIdentity, Store, Path], int]
    tell_end: Callable[[Path, int, str | None], int]
    grace_s: float = 3.0
    relay: tuple[signal.Signals, ...] = ()
    prepare: Callable[[], object] = lambda: None
    alone: Callable[[], object] = lambda: None


def run_on_ranks(work: Work) -> int:
    """Do ``work``; the exit code."""
    from clusterlab.launch.join import arrive

    arrival = arrive(os.environ)
    return _locally(work) if arrival is None else _launched(work, arrival)


def _locally(work: Work) -> int:
    from clusterlab.launch.local import run_local_ranks

    world_size = local_world_size(work.ranks, work.backend)
    work.check(world_size)
    work.alone()
    run = work.open_run()
    work.prepare()

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        with beating(run.path, identity.rank):
            return work.rank_main(identity, meet_here(identity, open_store), run.path)

    outcome = run_local_ranks(
        world_size, rank_main, log_dir=run.logs_path, grace_s=work.grace_s, relay=work.relay
    )
    # A rank that ends with a finding has not failed: the report says what it found.
    found = outcome.culprit is not None and outcome.culprit.error is None
    found = found and outcome.exit_code == ExitCode.FINDING
    return work.tell_end(run.path, outcome.exit_code, None if found else outcome.message)


def _launched(work: Work, arrival: Arrival) -> int:
    identity = arrival.identity
    with Ending(identity.rank) as ending:
        try:
            if identity.rank == 0:
                for note in arrival.notes:
                    print(f"clusterlab: {note}", file=sys.stderr, flush=True)
            work.check(identity.world_size)
            given = given_run_path()
            if identity.rank == 0 and given is not None:
                # The batch script made it: it has an end also where the ranks never meet.
                ending.finish = finish_stopped(given, work.tell_end)
            store = arrival.open_store(JOIN_TIMEOUT_S)
            if identity.rank == 0:
                store.set(_PATH_KEY, str(work.open_run().path))
            code = _one_rank(work, identity, store, Path(store.get(_PATH_KEY).decode()), ending)
        except ClusterlabError as error:
            error.where = f"rank {identity.rank} on {identity.host}" + (
                f": {error.where}" if error.where else ""
            )
            raise
        arrival.leave()
    return code


def _one_rank(work: Work, identity: RankIdentity, store: Store, path: Path, ending: Ending) -> int:
    if identity.rank != 0:
        return work.rank_main(identity, store, path)
    ending.finish = finish_stopped(path, work.tell_end)
    try:
        with beating(path):
            code = work.rank_main(identity, store, path)
    except ClusterlabError as error:
        said = str(error)
        ending.tell(int(error.exit_code), lambda code: work.tell_end(path, code, said))
        raise
    except SystemExit as stop:  # a second SIGTERM to work that ends at a good place by itself
        code = stop.code if isinstance(stop.code, int) else 1
        ending.tell(code, lambda code: work.tell_end(path, code, "stopped by a signal"))
        raise
    return ending.tell(code, lambda code: work.tell_end(path, code, None))
