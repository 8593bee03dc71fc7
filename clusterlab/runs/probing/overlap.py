"""``clusterlab overlap``: from what was typed to a run of collectives with something beside them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterlab.bench.agreed_check import Outcome
from clusterlab.bench.overlap.figures import figures
from clusterlab.bench.overlap.measure import OverlapOptions, Overlapped, Pair, measure_overlap
from clusterlab.bench.statistics import summarise
from clusterlab.core.collectives import collectives
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text
from clusterlab.core.measurement import Measurement
from clusterlab.core.overlap import COMPUTE, Overlap
from clusterlab.core.rows import Point, make_row
from clusterlab.launch.identity import RankIdentity
from clusterlab.records.lines import OVERLAP, LineWriter, read_lines
from clusterlab.records.run_dir import RunDir, open_run, utc_text
from clusterlab.report.console.overlap import overlap_line, overlap_table
from clusterlab.report.console.progress import open_progress
from clusterlab.runs.directory import given_or_new_run
from clusterlab.runs.finish import end_run
from clusterlab.runs.local_ranks import backend_here, check_typed
from clusterlab.runs.on_ranks import Work, run_on_ranks
from clusterlab.runs.opening import Opened, begin
from clusterlab.runs.sweeping.points import PointsTyped, refuse_unsupported
from clusterlab.runs.sweeping.trouble import aftermath_of

if TYPE_CHECKING:
    from torch.distributed import Store


@dataclass(frozen=True, slots=True)
class OverlapConfig:
    """One run, fully resolved: what run.json keeps. ``beside``: ``compute`` and names of collectives."""

    typed: PointsTyped
    beside: tuple[str, ...]
    rounds: int
    check: bool
    backend: str
    fabric: str | None
    deadline_s: float
    side: int | None
    max_ctas: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain data for run.json."""
        return {"measures": "overlap", **asdict(self)}

    @property
    def options(self) -> OverlapOptions:
        """How it is measured."""
        return OverlapOptions(self.rounds, self.check, self.deadline_s, self.side, self.max_ctas)

    def pairs(self, world_size: int) -> list[Pair]:
        """Every collective with everything beside it, sizes innermost."""
        pairs = []
        for name in self.typed.collectives:
            for beside in self.beside:
                for i, point in enumerate(self.typed.points(name, world_size)):
                    other = None
                    if beside != COMPUTE:
                        other = self.typed.points(beside, world_size)[i]
                    pairs.append(Pair(point, other))
        return pairs


def resolve_overlap(
    typed: PointsTyped,
    beside: str,
    *,
    rounds: int,
    check: bool,
    backend: str,
    fabric: str | None,
    deadline_s: float,
    side: int | None,
    max_ctas: int | None,
) -> OverlapConfig:
    """The run that was typed. Raises UsageError naming the option."""
    check_typed(None, backend)
    here = backend_here(backend)
    if max_ctas is not None and here != "nccl":
        raise UsageError(
            f"{max_ctas}", where="--max-ctas", expected="NCCL: gloo has no thread blocks"
        )
    if not 0 < deadline_s < 1e9:
        raise UsageError(f"{deadline_s:g}", where="--deadline", expected="seconds above 0")
    names = [
        COMPUTE if word.strip().lower() == COMPUTE else collectives(word.strip())[0].name
        for word in beside.split(",")
    ]
    config = OverlapConfig(
        typed, tuple(dict.fromkeys(names)), rounds, check, here, fabric, deadline_s, side, max_ctas
    )
    config.options  # noqa: B018 - raises for what no option may be
    return config


def run_overlap(
    config: OverlapConfig, *, ranks: int | None, name: str | None, as_json: bool
) -> int:
    """Measure; the exit code: 1 for wrong data."""
    check_typed(ranks, config.backend)
    names = (*config.typed.collectives, *(b for b in config.beside if b != COMPUTE))
    return run_on_ranks(
        Work(
            backend=config.backend,
            ranks=ranks,
            check=lambda size: refuse_unsupported(config.typed, names, config.backend, size),
            open_run=lambda: given_or_new_run(name or "overlap"),
            rank_main=lambda identity, store, path: _rank(identity, store, path, config, as_json),
            tell_end=_tell_end,
        )
    )


def _tell_end(path: Path, code: int, message: str | None) -> int:
    end_run(path, code, message)
    return code


def _rank(
    identity: RankIdentity, store: Store, path: Path, config: OverlapConfig, as_json: bool
) -> int:
    """One rank's part. Pairs that an earlier attempt finished are left out."""
    import torch.distributed as dist

    pairs = config.pairs(identity.world_size)
    plain = list(dict.fromkeys(p for pair in pairs for p in (pair.point, pair.other) if p))
    planned = len({*plain, *(row for pair in pairs for row in _beside_points(pair))})
    opened = begin(identity, store, path, config, plain, planned_points=planned)
    run = opened.run if opened else open_run(path)
    done = {overlap.key for overlap in read_lines(run.path).overlaps}
    left = [pair for pair in pairs if _key(pair) not in done]
    keeper = _Keeper(opened, config, left, as_json=as_json) if opened else None
    try:
        measure_overlap(
            identity,
            left,
            config.options,
            keeper.take if keeper else _nothing,
            store=store,
            aftermath=aftermath_of(identity, path),
        )
    finally:
        if keeper:
            keeper.close()
        # Not after a failure: destroying a group whose peers are gone can block.
        if sys.exc_info()[0] is None:
            dist.destroy_process_group()
    return ExitCode.FINDING if keeper and keeper.wrong else ExitCode.OK


def _nothing(_done: Overlapped) -> None:
    """Ranks other than 0 keep nothing."""


def _key(pair: Pair) -> tuple[str, str, str, int]:
    point = pair.point
    return point.collective, pair.beside, point.dtype, point.requested_bytes


def _beside_points(pair: Pair) -> list[Point]:
    """The points of rows that say what ran beside: one where both are the same collective."""
    from dataclasses import replace

    points = [replace(pair.point, beside=pair.beside)]
    if pair.other is not None:
        points.append(replace(pair.other, beside=pair.point.collective))
    return list(dict.fromkeys(points))


class _Keeper:
    """Rank 0's end: rows, overlaps, and the table."""

    def __init__(
        self, opened: Opened, config: OverlapConfig, pairs: Sequence[Pair], *, as_json: bool
    ) -> None:
        self._opened = opened
        self._config = config
        self._as_json = as_json
        self._rows = opened.run.writer()
        self._lines = LineWriter(opened.run.path / OVERLAP)
        self._progress = open_progress(len(pairs))
        self._left = iter(pairs)
        self._alone = {row.point for row in opened.run.records().rows}
        self.wrong = 0
        if not as_json:
            for line in overlap_table(()):
                self._progress.line(line)
        self._start_next()

    def close(self) -> None:
        """Close the files and leave the terminal as it was."""
        self._progress.close()
        self._rows.close()
        self._lines.close()

    def take(self, done: Overlapped) -> None:
        """Keep one measured pair: its rows first, then what says that all of it is there."""
        pair, rounds = done.pair, done.rounds
        now = utc_text(datetime.now(UTC))
        beside = _beside_points(pair)
        alone = [r.alone for r in rounds]
        self._row(pair.point, alone, None, now)
        if pair.other is not None:
            self._row(pair.other, [r.other_alone for r in rounds], None, now)
        times = [[r.beside for r in rounds], [r.other_beside for r in rounds]]
        checks = (done.checked, done.other_checked)
        for point, own, checked in zip(beside, times, checks, strict=False):
            self._row(point, own, checked, now)
        overlap = _overlap_of(done, self._config, self._opened.run, now)
        self._lines.append(overlap)
        self.wrong += (overlap.wrong or 0) + (overlap.other_wrong or 0)
        self._progress.line(
            json_text(overlap.to_json()) if self._as_json else overlap_line(overlap)
        )
        self._progress.done()
        self._start_next()

    def _row(self, point: Point, times: list[float], checked: Outcome | None, now: str) -> None:
        if point in self._alone:
            return
        self._alone.add(point)
        measured = _measurement(times, checked)
        row = make_row(
            point,
            measured,
            self._opened.predicted.get(point),
            backend=self._config.backend,
            attempt=self._opened.run.attempt,
            time_utc=now,
        )
        self._rows.append(row)

    def _start_next(self) -> None:
        pair = next(self._left, None)
        if pair is not None:
            self._progress.start(_beside_points(pair)[0])


def _measurement(times_us: list[float], checked: Outcome | None) -> Measurement:
    """A row of rounds has one time, which is also the table's: their median."""
    s = summarise(times_us)
    return Measurement(
        iterations=len(times_us),
        warmup=3,
        time_us_loop=s.p50_us,
        time_us_p50=s.p50_us,
        time_us_min=s.min_us,
        time_us_max=s.max_us,
        time_us_p95=s.p95_us,
        time_us_p99=s.p99_us,
        cv=s.cv,
        p50_low_us=s.low_us,
        p50_high_us=s.high_us,
        samples=len(times_us),
        outliers=s.outliers,
        wrong=checked.wrong if checked else None,
        first_wrong=checked.first if checked else None,
    )


def _overlap_of(done: Overlapped, config: OverlapConfig, run: RunDir, now: str) -> Overlap:
    point = done.pair.point
    return Overlap(
        collective=point.collective,
        beside=done.pair.beside,
        dtype=point.dtype,
        op=point.op,
        size_bytes=point.size_bytes,
        requested_bytes=point.requested_bytes,
        world_size=point.world_size,
        backend=config.backend,
        rounds=len(done.rounds),
        calls=done.calls,
        compute=done.compute,
        **figures(done.rounds),
        wrong=done.checked.wrong if done.checked else None,
        other_wrong=done.other_checked.wrong if done.other_checked else None,
        max_ctas=config.max_ctas,
        attempt=run.attempt,
        time_utc=now,
    )
