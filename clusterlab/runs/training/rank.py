"""One rank of a training run: join, build or go on from a checkpoint, train step by step, keep each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.common_clock import CommonClock, host_clock_id, monotonic_us
from clusterlab.bench.control import Control
from clusterlab.bench.faults import naming_lost_peers
from clusterlab.bench.opening import current_device
from clusterlab.bench.watchdog import Watchdog
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.core.stepping import ExpertLoad, StepLedger
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.launch.roll_call import Record
from clusterlab.records.ledgers import LedgerWriter, write_collectives
from clusterlab.records.run_dir import RunDir, open_run, start_attempt
from clusterlab.runs.asked import Asked, asked_by_signals
from clusterlab.runs.beginning import begin_attempt
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S
from clusterlab.runs.sweeping.predicting import Model
from clusterlab.runs.sweeping.trouble import aftermath_of
from clusterlab.runs.training.job import CHECKPOINTS, TrainJob
from clusterlab.runs.training.keeper import StepKeeper
from clusterlab.runs.training.predicted import check_one_host, host_constants, predicted_step
from clusterlab.runs.training.step import Told, measured, peak_memory
from clusterlab.runs.training.whatif import call_times, fabric_of_run
from clusterlab.runs.whereabouts import Whereabouts, call_whereabouts
from clusterlab.trainers.breakdown import break_down, transfers
from clusterlab.trainers.collectives import summarise
from clusterlab.trainers.plans.load import expert_load, totals

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup, Store

    from clusterlab.cost.calibration import Calibration
    from clusterlab.trainers.axis import Axis
    from clusterlab.trainers.ledger import Ledger
    from clusterlab.trainers.step import Trainer


def train_rank(identity: RankIdentity, store: Store, run_path: Path, job: TrainJob) -> int:
    """Train as one rank; the exit code: 0, 1 for a loss that is not finite, 128+n when signal n stopped it.

    Steps that an attempt before kept in a checkpoint are not done again.
    """
    import torch.distributed as dist

    with asked_by_signals() as asked:
        run, calibration = _begin(identity, store, run_path, job)
        watchdog = Watchdog(identity, job.deadline_s, store, aftermath_of(identity, run_path))
        try:
            with watchdog, LedgerWriter(run.path, identity.rank) as ledgers:
                return _Training(identity, job, run, watchdog, ledgers).run(asked, calibration)
        finally:
            # Not after a failure: destroying a group whose peers are gone can block.
            if sys.exc_info()[0] is None:
                dist.destroy_process_group()


def _begin(
    identity: RankIdentity, store: Store, run_path: Path, job: TrainJob
) -> tuple[RunDir, Calibration | None]:
    """Join the default process group and start an attempt; the run with it, and on rank 0 what predictions
    need of this host. Collective.
    """
    with naming_lost_peers("start of the run"):
        where = call_whereabouts(identity, store, job.backend, timeout_s=JOIN_TIMEOUT_S)
        timeout_s = max(JOIN_TIMEOUT_S, 2 * job.deadline_s)
        init_process_group(identity, store, job.backend, timeout_s=timeout_s)
        calibration = host_constants(identity, store, job)
    begin_attempt(
        identity, store, lambda records: _open(run_path, job, where, calibration, records)
    )
    return open_run(run_path), calibration


def _open(
    run_path: Path,
    job: TrainJob,
    where: Whereabouts | None,
    calibration: Calibration | None,
    _records: Sequence[Record],
) -> ClusterlabError | None:
    """On rank 0, while the others wait: what keeps it from starting an attempt is raised on all."""
    assert where is not None, "rank 0 knows where all ranks are"
    try:
        check_one_host(job, where.placement)
        run = start_attempt(
            open_run(run_path), configuration=job.to_json(where.placement.world_size)
        )
        fabric = None if job.fabric is None else fabric_of_run(job.fabric, job.backend)
        Model(where.placement, job.backend, fabric, calibration=calibration).write(run.path)
    except ClusterlabError as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class _Built:
    """What a rank trains with. ``first``: the next step's number."""

    control: Control
    host_group: ProcessGroup
    clock: CommonClock
    ledger: Ledger
    trainer: Trainer
    first: int


class _Training:
    """A rank's loop over the steps."""

    def __init__(
        self,
        identity: RankIdentity,
        job: TrainJob,
        run: RunDir,
        watchdog: Watchdog,
        ledgers: LedgerWriter,
    ) -> None:
        self._identity, self._job, self._run = identity, job, run
        self._watchdog, self._ledgers = watchdog, ledgers
        self._setup = job.setup(identity.world_size)
        self._transfer_us: dict[int, float] = {}

    def run(self, asked: Asked, calibration: Calibration | None) -> int:
        """All steps that are left; the exit code."""
        steps = self._setup.train.steps
        with self._watchdog.guard(0, "start of the training"):
            built = self._build()
            rank = self._identity.rank
            predicted = predicted_step(self._job, self._setup, built.control, rank, calibration)
        keeper = None
        if rank == 0:
            keeper = StepKeeper(
                self._run,
                self._setup,
                first=built.first,
                as_json=self._job.as_json,
                predicted_us=None if predicted is None else predicted.step_us,
            )
        code = int(ExitCode.OK)
        try:
            for number in range(built.first, steps):
                with self._watchdog.guard(number - built.first + 1, f"step {number}"):
                    told = self._step(built, number, asked, keeper)
                    every = self._job.checkpoint_every
                    last = number + 1 == steps
                    if told.stop or told.save or (every and ((number + 1) % every == 0 or last)):
                        self._save(built, number + 1)
                if told.stop or told.loss is None:
                    code = 128 + told.stop if told.stop else int(ExitCode.FINDING)
                    break
            with self._watchdog.guard(steps - built.first + 1, "end of the training"):
                built.control.barrier()
        finally:
            if keeper is not None:
                keeper.close()
        if keeper is not None:
            alone_us = None if predicted is None else call_times(predicted)
            recent = tuple(keeper.recent)
            if recent:  # else the table of the attempt that did the last steps stays
                write_collectives(self._run.path, summarise(recent, alone_us), recent)
        return code

    def _build(self) -> _Built:
        """Groups, clock and trainer, at its first values or those of the latest checkpoint. Collective."""
        import torch.distributed as dist

        from clusterlab.trainers.axis import open_axes
        from clusterlab.trainers.build import build
        from clusterlab.trainers.checkpoint import restore
        from clusterlab.trainers.ledger import Ledger

        device, rank = current_device(), self._identity.rank
        control = Control(device, self._identity.world_size)
        # A checkpoint moves plain data of the host's.
        host_group = (
            dist.group.WORLD if self._job.backend == "gloo" else dist.new_group(backend="gloo")
        )
        assert host_group is not None, "the default group is there"
        ledger = Ledger(on_gpu=device.type == "cuda")
        axes: dict[str, Axis] = open_axes(self._setup.mesh, rank, ledger)
        trainer = build(self._setup, rank, axes, ledger, device)
        done = 0
        with self._said_once():
            found = restore(self._checkpoints, trainer.parameters, self._setup, host_group)
        if found is not None:
            done, values = found
            trainer = build(self._setup, rank, axes, ledger, device, values=values)
        clock = CommonClock(control, host_clock_id())
        return _Built(control, host_group, clock, ledger, trainer, done)

    @property
    def _checkpoints(self) -> Path:
        return self._run.path / CHECKPOINTS

    def _save(self, built: _Built, steps: int) -> None:
        from clusterlab.trainers.checkpoint import save

        parameters = {n: value.cpu() for n, value in built.trainer.held().parameters.items()}
        with self._said_once():
            save(self._checkpoints, steps, parameters, self._setup, built.host_group)

    @contextmanager
    def _said_once(self) -> Iterator[None]:
        """An error of all ranks is printed by rank 0; of ranks forked here by the launcher, once."""
        try:
            yield
        except ClusterlabError as error:
            error.said = self._identity.source != "local" and self._identity.rank != 0
            raise

    def _step(self, built: _Built, number: int, asked: Asked, keeper: StepKeeper | None) -> Told:
        """One step, its ledger kept; what all ranks say of it. Collective."""
        peak_memory(built.control.device, reset=True)
        began_us = built.clock.common(monotonic_us())
        loss = built.trainer.step(number)
        ledger = self._taken(built.ledger, number, began_us)
        self._ledgers.append(ledger)
        # Of other steps too: in one step every receive of a size may have waited for its sender.
        for size, us in transfers(ledger.entries).items():
            self._transfer_us[size] = min(us, self._transfer_us.get(size, us))
        parts = break_down(ledger.spans, ledger.entries, self._transfer_us)
        memory = peak_memory(built.control.device)
        told = measured(
            built.control, parts, loss, memory=memory, collectives=len(ledger.entries), asked=asked
        )
        asked.save = False
        load = self._load(built, number)
        if keeper is not None:
            keeper.take(number, told, ledger, load)
        built.clock.renew(built.control)
        return told

    def _load(self, built: _Built, number: int) -> ExpertLoad | None:
        """What experts took in step ``number``. Collective."""
        if not self._setup.model.experts:
            return None
        rows = built.control.gather(totals(self._setup, built.trainer.routed))
        return expert_load(self._setup, number, self._run.attempt, rows)

    def _taken(self, ledger: Ledger, number: int, began_us: float) -> StepLedger:
        """The step's part of ``ledger``, which is empty then; what was sent before the first is left out."""
        spans = tuple(span for span in ledger.spans if span.step == number)
        entries = tuple(entry for entry in ledger.entries if entry.step == number)
        ledger.spans.clear()
        ledger.entries.clear()
        rank, host = self._identity.rank, self._identity.host
        return StepLedger(rank, host, self._run.attempt, number, began_us, spans, entries)
