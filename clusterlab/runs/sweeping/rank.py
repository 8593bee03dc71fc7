"""One rank's part of a sweep: say where it is, join, measure, keep. Rank 0 also predicts and prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterlab.bench.runner import measure_steps, refuse_oversize
from clusterlab.bench.watchdog import Watchdog
from clusterlab.bench.witness import open_witness
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.core.jsontext import json_text
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, Predicted, Row, make_row, row_to_json
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.launch.roll_call import Record
from clusterlab.records.run_dir import RunDir, open_run, start_attempt, utc_text
from clusterlab.records.store import latest_rows
from clusterlab.report.console.groups import words_of
from clusterlab.report.console.nccl_table import options_of, preamble
from clusterlab.report.console.nccl_table_writer import TableWriter
from clusterlab.report.console.pairs import pair_lines
from clusterlab.report.console.progress import Progress, open_progress
from clusterlab.runs.beginning import begin_attempt
from clusterlab.runs.calibrating.session_calibration import agreed_calibration
from clusterlab.runs.library_facts import keep_library_facts
from clusterlab.runs.sweeping.group_predicting import groups_note, predict_steps
from clusterlab.runs.sweeping.job import JOIN_TIMEOUT_S, START_S, SweepJob
from clusterlab.runs.sweeping.plan import SweepPlan, make_plan
from clusterlab.runs.sweeping.predicting import (
    choose_model,
    given_calibration,
    pairs_note,
    predict_points,
)
from clusterlab.runs.sweeping.resolved import note_skipped, unsupported_by
from clusterlab.runs.sweeping.trouble import aftermath_of
from clusterlab.runs.whereabouts import Whereabouts, agreed_placement, call_whereabouts
from clusterlab.verdict.pairs import pair_tables

if TYPE_CHECKING:
    from torch.distributed import Store

    from clusterlab.cost.calibration import Calibration


@dataclass(frozen=True, slots=True)
class _Opened:
    """What rank 0 has ready when measuring starts."""

    run: RunDir
    predicted: Mapping[Point, Predicted]
    whereabouts: Whereabouts


def run_rank(identity: RankIdentity, store: Store, job: SweepJob) -> int:
    """Measure the sweep as one rank; the exit code is 1 when any element was wrong, else 0.

    Rank 0 predicts every point and opens the run before any is measured. Points that an earlier
    attempt finished are left out. Raises what ``measure_points`` raises, StorageError when rows can no
    longer be kept, RefusedError when the ranks must not start together.
    """
    import torch.distributed as dist

    config = job.config
    start = Watchdog(identity, START_S, None, starting_on=lambda: store)
    with start as watchdog, watchdog.guard(0, "start of the run"):
        whereabouts = call_whereabouts(identity, store, config.backend, timeout_s=JOIN_TIMEOUT_S)
        placement = agreed_placement(identity, store, whereabouts) if config.of_groups else None
        plan = make_plan(
            config,
            identity.world_size,
            unsupported_by(config.backend, identity.world_size),
            placement,
        )
        witness = open_witness(job.run_path, identity.rank, config.backend)
        init_process_group(identity, store, config.backend, timeout_s=_group_timeout_s(job))
        refuse_oversize(
            identity, plan.points
        )  # before a calibration spends its quarter of a minute
        witness.quiet()
        # No pair is predicted from the host's constants, see predicting.
        calibration = None if config.of_pairs else agreed_calibration(identity, store, config)
        opened = _open_together(identity, store, lambda: _open(job, plan, whereabouts, calibration))
    run = opened.run if opened else open_run(job.run_path)
    steps = _unfinished(plan, run)
    points = [point for step in steps for point in step]
    try:
        with ExitStack() as stack:
            samples = stack.enter_context(run.samples_writer(identity.rank))
            keep = stack.enter_context(_Keeper(job, opened, points)) if opened else None
            take = keep.take if keep else _nothing
            measure_steps(
                identity,
                steps,
                job.options,
                take,
                store=store,
                on_samples=samples.append,
                aftermath=aftermath_of(identity, job.run_path),
                witness=witness if config.backend == "nccl" else None,
            )
            if identity.rank == 0:
                keep_library_facts(witness, run.path)
            else:
                witness.close()
            return ExitCode.FINDING if keep and keep.wrong else ExitCode.OK
    finally:
        # Not after a failure: destroying a group whose peers are gone can block.
        if sys.exc_info()[0] is None:
            dist.destroy_process_group()


def _open_together(
    identity: RankIdentity, store: Store, open_it: Callable[[], _Opened]
) -> _Opened | None:
    """Rank 0 opens the run while the others wait; what keeps it from doing so is raised on all."""
    opened: list[_Opened] = []

    def open_or_refuse(_records: Sequence[Record]) -> ClusterlabError | None:
        try:
            opened.append(open_it())
        except ClusterlabError as error:
            return error
        return None

    begin_attempt(identity, store, open_or_refuse)
    return opened[0] if opened else None


def _open(
    job: SweepJob,
    plan: SweepPlan,
    whereabouts: Whereabouts | None,
    calibration: Calibration | None,
) -> _Opened:
    """Rank 0: predict, then write what is known before the first measurement."""
    assert whereabouts is not None, "rank 0 knows where all ranks are"
    config = job.config
    note_skipped(plan.skipped)
    placement = whereabouts.placement
    given = given_calibration(config.calibration, config.backend)
    model = choose_model(placement, config.backend, config.fabric, given or calibration)
    if config.of_groups:
        predicted = predict_steps(plan.steps, model)
        note_of_some = groups_note(plan.points, predicted, model)
    else:
        predicted = predict_points(plan.points, model)
        note_of_some = pairs_note(plan.points, predicted, model)
    for note in (model.note, note_of_some):
        if note:
            print(f"clusterlab: {note}", file=sys.stderr)
    run = start_attempt(
        open_run(job.run_path),
        configuration={**config.to_json(), "world_size": placement.world_size},
        planned_points=len(plan.points),
    )
    model.write(run.path)
    return _Opened(run, predicted, whereabouts)


def _unfinished(plan: SweepPlan, run: RunDir) -> list[tuple[Point, ...]]:
    """The steps that lack a row. One that an end cut through is measured whole again: its points belong
    together.
    """
    done = {row.point for row in run.records().rows} if run.attempt > 1 else set()
    return [step for step in plan.steps if not done.issuperset(step)]


def _group_timeout_s(job: SweepJob) -> float:
    """The watchdog speaks first: it can name the point and the ranks that did not arrive."""
    return max(JOIN_TIMEOUT_S, 2 * job.options.deadline_s)


def _nothing(_point: Point, _measured: Measurement, _slowest_us: Sequence[float]) -> None:
    """Ranks other than 0 keep their samples only."""


class _Keeper:
    """Rank 0's end of the sweep: joins prediction and measurement, appends the row, shows it."""

    def __init__(self, job: SweepJob, opened: _Opened, points: Sequence[Point]) -> None:
        self._job = job
        self._opened = opened
        self._points = points
        self._left = iter(points)
        self.wrong = 0

    def __enter__(self) -> _Keeper:
        self._writer = self._opened.run.writer()
        self._progress = open_progress(len(self._points))
        self._show, self._finish = self._shower(self._progress)
        self._start_next()
        return self

    def __exit__(self, *_error: object) -> None:
        self._finish()
        self._progress.close()
        self._writer.close()

    def take(self, point: Point, measured: Measurement, _slowest_us: Sequence[float]) -> None:
        """Keep one measured point."""
        row = make_row(
            point,
            measured,
            self._opened.predicted.get(point),
            backend=self._job.config.backend,
            attempt=self._opened.run.attempt,
            time_utc=utc_text(datetime.now(UTC)),
        )
        # On disk before on the screen: what was seen is never lost.
        self._writer.append(row)
        self.wrong += row.wrong or 0
        self._show(row)
        self._progress.done()
        self._start_next()

    def _start_next(self) -> None:
        point = next(self._left, None)
        if point is not None:
            self._progress.start(point)

    def _shower(self, progress: Progress) -> tuple[Callable[[Row], None], Callable[[], None]]:
        """How a row is shown, and what ends the showing."""
        output, where = self._job.output, self._opened.whereabouts
        if output.as_json:
            return lambda row: progress.line(json_text(row_to_json(row))), lambda: None
        if self._job.config.of_pairs:
            return lambda _row: None, self._show_pairs
        table = TableWriter(
            progress.line,
            strict=output.strict,
            per_iteration=output.table.per_iteration,
            places=sorted({p.in_place for p in self._points}),
            groups=words_of(where.placement) if self._job.config.of_groups else None,
            preamble=lambda row: preamble(
                row.collective,
                options_of(output.table, row),
                where.placement,
                versions=output.versions,
                pids=where.pids,
            ),
        )
        return table.add, table.finish

    def _show_pairs(self) -> None:
        """Pairs mean something only beside each other: all of the run's, once, at the end."""
        rows = latest_rows(self._opened.run.records().rows).rows
        for line in pair_lines(pair_tables(rows), self._opened.whereabouts.placement):
            self._progress.line(line)
