"""A sweep on this machine: open the run directory, fork the ranks, conclude."""

from __future__ import annotations

from clusterlab.launch.gpus import visible_gpus
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.runs.finish import end_run
from clusterlab.runs.job import JOIN_TIMEOUT_S
from clusterlab.runs.plan import make_plan
from clusterlab.runs.rank import run_rank
from clusterlab.runs.resolved import job_of, unsupported_by
from clusterlab.runs.sweep import SweepStart

DEFAULT_LOCAL_RANKS = 4
"""Ranks on a machine without GPUs when nobody says how many."""


def run_local_sweep(start: SweepStart) -> int:
    """Run the sweep over local ranks; the exit code."""
    config = start.config
    world_size = start.ranks or _default_ranks(config.backend)
    # Bad requests are refused here, before a directory is made and ranks start.
    make_plan(config, world_size, unsupported_by(config.backend, world_size))
    run = start.open_run()
    job = job_of(start, run.path)

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        return run_rank(identity, open_store(JOIN_TIMEOUT_S), job)

    outcome = run_local_ranks(world_size, rank_main, log_dir=run.logs_path)
    end_run(run.path, outcome.exit_code, outcome.message)
    return outcome.exit_code


def _default_ranks(backend: str) -> int:
    return visible_gpus() if backend == "nccl" else DEFAULT_LOCAL_RANKS
