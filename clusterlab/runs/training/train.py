"""``clusterlab train``: from what was typed to a training run on local ranks or a launcher's."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.records.run_dir import check_configuration, open_run
from clusterlab.records.target import check_target
from clusterlab.runs.connected.trace import write_trace
from clusterlab.runs.directory import given_or_new_run, given_run_path
from clusterlab.runs.finish import end_run
from clusterlab.runs.local_ranks import backend_here, check_typed
from clusterlab.runs.on_ranks import Work, run_on_ranks
from clusterlab.runs.sweeping.predicting import THIS_HOST
from clusterlab.runs.training.job import TrainJob
from clusterlab.runs.training.rank import train_rank
from clusterlab.runs.training.setup import TrainTyped, ranks_typed
from clusterlab.runs.training.whatif import compute_of, fabric_of_run, is_probe, what_if
from clusterlab.trainers.plans.compute import typed_compute

_GRACE_S = 20.0
"""Ranks that are asked to stop finish their step and write a checkpoint."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What was typed for ``clusterlab train``, and how it is run."""

    typed: TrainTyped
    ranks: int | None
    backend: str
    name: str | None
    checkpoint_every: int
    deadline_s: float
    as_json: bool
    trace: str | None
    fabric: str | None = None
    compute: str | None = None


def run_train(request: TrainRequest) -> int:
    """Train; the exit code: 0, 1 for a loss that is not finite, 2, 4, 128+n as for every run."""
    check_typed(request.ranks, request.backend)
    if request.checkpoint_every < 0:
        raise UsageError(
            f"{request.checkpoint_every}", where="--checkpoint-every", expected="0 (never) or more"
        )
    if not 0 < request.deadline_s < 1e9:
        raise UsageError(f"{request.deadline_s:g}", where="--deadline", expected="seconds above 0")
    trace = None if request.trace is None else Path(request.trace)
    if trace is not None:
        check_target(trace, where="--trace")
    if trace is not None and not os.access(trace.absolute().parent, os.W_OK | os.X_OK):
        raise UsageError("cannot write in its folder", where=f"--trace {trace}")
    job = TrainJob(
        typed=request.typed,
        backend=backend_here(request.backend),
        checkpoint_every=request.checkpoint_every,
        deadline_s=request.deadline_s,
        as_json=request.as_json,
        trace=trace,
        fabric=request.fabric,
        compute=request.compute,
    )
    return run_on_ranks(
        Work(
            backend=job.backend,
            ranks=request.ranks or ranks_typed(request.typed),
            check=lambda size: _check(job, size),
            open_run=lambda: given_or_new_run(request.name or f"train_{request.typed.strategy}"),
            rank_main=lambda identity, store, path: train_rank(identity, store, path, job),
            tell_end=lambda path, code, message: _tell_end(path, code, message, job),
            grace_s=_GRACE_S,
            relay=(signal.SIGUSR1,),
            prepare=_prepare,
        )
    )


def _prepare() -> None:
    """torch's optimizers import its compiler when they are first made: a second of CPU, in every rank."""
    import torch._dynamo  # noqa: F401

    import clusterlab.trainers.build  # noqa: F401


def _check(job: TrainJob, world_size: int) -> None:
    """Refuse what cannot be built or predicted before a directory is made; a GPU is probed later."""
    setup = job.setup(world_size)
    given = given_run_path()
    if given is not None:
        check_configuration(open_run(given), job.to_json(world_size))
    if setup.train.expert_backend == "deep_ep":
        from clusterlab.trainers.strategies.library.deep_ep import imported

        imported(setup)
    if job.fabric is None:
        if job.compute is not None:
            raise UsageError("nothing is predicted", where="--compute", expected="--fabric FABRIC")
        return
    fabric = fabric_of_run(job.fabric, job.backend)
    if job.fabric == THIS_HOST:
        return  # the ranks measure what gloo takes
    # A probe is the ranks' to make; whether the fabric has what is needed does not depend on it.
    probe = is_probe(job.compute, fabric)
    compute = typed_compute("1,1") if probe else compute_of(job.compute, fabric, setup)
    what_if(setup, fabric, compute, backend=job.backend)


def _tell_end(path: Path, code: int, message: str | None, job: TrainJob) -> int:
    end_run(path, code, message)
    if job.trace is not None and code == ExitCode.OK:
        number = write_trace(open_run(path), job.trace)
        print(f"clusterlab: trace of step {number}: {job.trace}", file=sys.stderr, flush=True)
    return code
