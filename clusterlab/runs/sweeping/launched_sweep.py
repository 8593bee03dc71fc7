"""A sweep as one rank that a launcher started: srun, torchrun, mpirun.

Every rank runs this. The run directory is CLUSTERLAB_RUN_DIR, made by the batch script, or one that
rank 0 makes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.spoiling import refuse_corrupt, refuse_corrupt_rank
from clusterlab.core.errors import ClusterlabError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.join import Arrival
from clusterlab.records.lease import beating
from clusterlab.records.run_dir import RunDir
from clusterlab.records.target import check_target
from clusterlab.runs.directory import given_run_path
from clusterlab.runs.ending import Ending
from clusterlab.runs.finish import end_run
from clusterlab.runs.stopped import TellEnd, finish_stopped
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S, SweepJob
from clusterlab.runs.sweeping.plan import make_plan
from clusterlab.runs.sweeping.rank import run_rank
from clusterlab.runs.sweeping.resolved import job_of, unsupported_by
from clusterlab.runs.sweeping.sweep import SweepStart

if TYPE_CHECKING:
    from torch.distributed import Store

_PATH_KEY = "clusterlab/run_dir"


def run_launched_sweep(start: SweepStart, arrival: Arrival) -> int:
    """Run the sweep as this one rank; the exit code. Errors name the rank that raises them."""
    identity = arrival.identity
    if identity.rank == 0:
        if start.tests_json is not None:
            check_target(start.tests_json)
        for note in arrival.notes:
            print(f"clusterlab: {note}", file=sys.stderr, flush=True)
    with Ending(identity.rank) as ending:
        try:
            _refuse_corrupt(start, identity.world_size)
            _finish_given(ending, identity, start.tests_json)
            store = arrival.open_store(JOIN_TIMEOUT_S)
            job = job_of(start, _run_path(identity, store, start.open_run))
            code = _measure(identity, store, job, start.tests_json, ending)
        except ClusterlabError as error:
            error.where = f"rank {identity.rank} on {identity.host}" + (
                f": {error.where}" if error.where else ""
            )
            raise
        arrival.leave()
    return code


def _finish_given(ending: Ending, identity: RankIdentity, tests_json: Path | None) -> None:
    """A run directory that the batch script made has an end also where the ranks never met."""
    given = given_run_path()
    if identity.rank == 0 and given is not None:
        ending.finish = finish_stopped(given, _teller(tests_json))


def _teller(tests_json: Path | None) -> TellEnd:
    def tell(path: Path, code: int, message: str | None) -> int:
        end_run(path, code, message, tests_json=tests_json)
        return code

    return tell


def _refuse_corrupt(start: SweepStart, world_size: int) -> None:
    """As far as it can be told before the ranks have met: not who is in which group."""
    config = start.config
    if config.of_groups:
        refuse_corrupt_rank(start.corrupt, world_size)
    elif start.corrupt is not None:
        plan = make_plan(config, world_size, unsupported_by(config.backend, world_size))
        refuse_corrupt(start.corrupt, plan.points, world_size)


def _run_path(identity: RankIdentity, store: Store, run: Callable[[], RunDir]) -> Path:
    """The one run directory of this job, told by rank 0 to all."""
    if identity.rank == 0:
        store.set(_PATH_KEY, str(run().path))
    return Path(store.get(_PATH_KEY).decode())


def _measure(
    identity: RankIdentity,
    store: Store,
    job: SweepJob,
    tests_json: Path | None,
    ending: Ending,
) -> int:
    if identity.rank != 0:
        return run_rank(identity, store, job)
    path, tell = job.run_path, _teller(tests_json)
    ending.finish = finish_stopped(path, tell)
    try:
        with beating(path):
            code = run_rank(identity, store, job)
    except ClusterlabError as error:
        said = str(error)
        ending.tell(int(error.exit_code), lambda code: tell(path, code, said))
        raise
    return ending.tell(code, lambda code: tell(path, code, None))
