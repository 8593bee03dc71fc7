"""A sweep on this machine: open the run directory, fork the ranks, conclude."""

from __future__ import annotations

from clusterlab.bench.spoiling import refuse_corrupt
from clusterlab.core.errors import ExitCode
from clusterlab.core.placement import local_placement
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.records.lease import beating
from clusterlab.records.target import check_target
from clusterlab.runs.finish import end_run
from clusterlab.runs.local_ranks import local_world_size, meet_here
from clusterlab.runs.sweeping.plan import make_plan
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.runs.sweeping.rank import run_rank
from clusterlab.runs.sweeping.resolved import job_of, unsupported_by
from clusterlab.runs.sweeping.sweep import SweepStart
from clusterlab.topology.match import place_like
from clusterlab.topology.opening import open_fabric


def run_local_sweep(start: SweepStart) -> int:
    """Run the sweep over local ranks; the exit code."""
    config = start.config
    world_size = local_world_size(start.ranks, config.backend)
    # Bad requests are refused here, before a directory is made and ranks start.
    plan = make_plan(config, world_size, unsupported_by(config.backend, world_size))
    refuse_corrupt(start.corrupt, plan.points, world_size)
    if config.fabric not in (None, THIS_HOST):
        place_like(open_fabric(str(config.fabric)), local_placement(world_size, "here"))
    if start.tests_json is not None:
        check_target(start.tests_json)
    run = start.open_run()
    job = job_of(start, run.path)

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        with beating(run.path, identity.rank):
            return run_rank(identity, meet_here(identity, open_store), job)

    outcome = run_local_ranks(world_size, rank_main, log_dir=run.logs_path)
    # Wrong data is no rank's failure: the report says where it is.
    found = outcome.culprit is not None and outcome.culprit.error is None
    wrong_data = found and outcome.exit_code == ExitCode.FINDING
    end_run(
        run.path,
        outcome.exit_code,
        None if wrong_data else outcome.message,
        tests_json=start.tests_json,
    )
    return outcome.exit_code
