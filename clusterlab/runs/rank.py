"""One rank's part of a sweep: join, measure, keep. Rank 0 also appends rows and prints them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_points
from clusterlab.core.errors import ExitCode
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Measurement, Point, Predicted, Row, make_row, row_to_json
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.records.run_dir import RunDir, utc_text
from clusterlab.records.store import RecordWriter
from clusterlab.report.nccl_table import TableOptions, TableWriter, preamble
from clusterlab.report.progress import Progress, open_progress

if TYPE_CHECKING:
    from torch.distributed import Store

JOIN_TIMEOUT_S = 120.0
"""How long ranks wait for each other to appear."""


@dataclass(frozen=True, slots=True)
class Output:
    """How rank 0 shows rows: nccl-tests' table (``strict``: its columns only), or JSON lines."""

    as_json: bool
    strict: bool
    table: TableOptions
    versions: str


@dataclass(frozen=True, slots=True)
class SweepJob:
    """What every rank of a sweep needs to know. ``predicted`` is used by rank 0 alone."""

    run: RunDir
    points: tuple[Point, ...]
    predicted: Mapping[Point, Predicted]
    placement: Placement
    backend: str
    options: BenchOptions
    output: Output


def run_rank(identity: RankIdentity, store: Store, job: SweepJob) -> int:
    """Measure the sweep as one rank; the exit code is 1 when any element was wrong, else 0.

    Raises what ``measure_points`` raises, and StorageError when rows can no longer be kept.
    """
    import torch.distributed as dist

    init_process_group(identity, store, job.backend, timeout_s=_group_timeout_s(job.options))
    try:
        with ExitStack() as stack:
            samples = stack.enter_context(job.run.samples_writer(identity.rank))
            keep = stack.enter_context(_Keeper(job)) if identity.rank == 0 else None
            measure_points(
                identity,
                job.points,
                job.options,
                keep.take if keep else _nothing,
                store=store,
                on_samples=samples.append,
            )
            return ExitCode.FINDING if keep and keep.wrong else ExitCode.OK
    finally:
        # Not after a failure: destroying a group whose peers are gone can block.
        if sys.exc_info()[0] is None:
            dist.destroy_process_group()


def _group_timeout_s(options: BenchOptions) -> float:
    """The watchdog speaks first: it can name the point and the ranks that did not arrive."""
    return max(JOIN_TIMEOUT_S, 2 * options.deadline_s)


def _nothing(_point: Point, _measured: Measurement, _slowest_us: Sequence[float]) -> None:
    """Ranks other than 0 keep their samples only."""


class _Keeper:
    """Rank 0's end of the sweep: joins prediction and measurement, appends the row, shows it."""

    def __init__(self, job: SweepJob) -> None:
        self._job = job
        self._left = iter(job.points)
        self.wrong = 0

    def __enter__(self) -> _Keeper:
        self._writer: RecordWriter = self._job.run.writer()
        self._progress = open_progress(len(self._job.points))
        self._show, self._finish = _shower(self._job, self._progress)
        self._start_next()
        return self

    def __exit__(self, *_error: object) -> None:
        self._finish()
        self._progress.close()
        self._writer.close()

    def take(self, point: Point, measured: Measurement, _slowest_us: Sequence[float]) -> None:
        row = make_row(
            point,
            measured,
            self._job.predicted.get(point),
            backend=self._job.backend,
            attempt=self._job.run.attempt,
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


def _shower(job: SweepJob, progress: Progress) -> tuple[Callable[[Row], None], Callable[[], None]]:
    """How a row is shown, and what ends the showing."""
    output = job.output
    if output.as_json:
        return lambda row: progress.line(json.dumps(row_to_json(row))), lambda: None
    table = TableWriter(
        progress.line,
        strict=output.strict,
        places=sorted({p.in_place for p in job.points}),
        preamble=lambda name: preamble(name, output.table, job.placement, versions=output.versions),
    )
    return table.add, table.finish
