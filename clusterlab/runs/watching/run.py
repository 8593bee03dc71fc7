"""One look after another at a run that others write: what it is now, and what is new."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point, Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.documents import read_placement
from clusterlab.records.growing import Growing
from clusterlab.records.lines import OVERLAP, SOAK, STEPS, line_from_data
from clusterlab.records.reading import NOT_JSON, too_many_digits
from clusterlab.records.run_dir import open_run
from clusterlab.records.schema import row_from_data
from clusterlab.records.store import RECORDS
from clusterlab.report.console.watching import Left, Record, Seen, SeenRow, Slowest, State
from clusterlab.runs.watching.kinds import kind_of, kind_of_run, tables_of
from clusterlab.runs.watching.plan import (
    Steps,
    between,
    in_flight,
    left_of_points,
    left_of_steps,
    planned_steps,
    whole,
)
from clusterlab.runs.watching.pulse import Pulse
from clusterlab.runs.watching.slowest import SlowestRank, slowest_of_steps
from clusterlab.verdict.judge import Judged, judge_row
from clusterlab.verdict.overlap import ONLY_DATA, planned_overlaps

LAST = 200
"""Records that are kept to be shown."""

_MISSES = 8
"""Looks in a row that may fail: a shared file system has such moments."""


class Watched:
    """The run in ``path``, which exists. ``look`` reads what was appended since the look before."""

    def __init__(
        self,
        path: Path,
        *,
        once: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._run = open_run(path)
        self._now = now
        self._pulse = Pulse(self._run.path, once=once, clock=clock, now=now)
        self._records = Growing(self._run.path / RECORDS)
        self._step_lines = Growing(self._run.path / STEPS)
        self._pass_lines = Growing(self._run.path / SOAK)
        self._overlap_lines = Growing(self._run.path / OVERLAP)
        self._rows: list[Row] = []
        self._latest: dict[Point, tuple[Row, Verdict]] = {}
        self._counts: Counter[Verdict] = Counter()
        self._steps: dict[int, StepLine] = {}
        self._overlaps: set[object] = set()
        self._passes = 0
        self._last: list[Record] = []
        self._torn = 0
        self._plan: Steps | None = None
        self._planned_for = -1
        self._samples = SlowestRank(self._run.samples_path)
        self._placement: Placement | None = None
        self._misses = 0

    def look(self) -> Seen:
        """Raises UsageError for a damaged run, and for one that went away."""
        self._open()
        new: list[Record] = []
        new += [self._row(data, where) for data, where in self._grown(self._records)]
        for data, where in self._grown(self._step_lines):
            step = line_from_data(data, StepLine, where=where)
            self._steps[step.step] = step
            new.append(step)
        for data, where in self._grown(self._pass_lines):
            one = line_from_data(data, SoakPass, where=where)
            self._passes = max(self._passes, one.number)
            new.append(one)
        for data, where in self._grown(self._overlap_lines):
            overlap = line_from_data(data, Overlap, where=where)
            self._overlaps.add(overlap.key)
            new.append(overlap)
        if new:
            self._pulse.grown()
        self._last = [*self._last, *new][-LAST:]
        state, said = self._pulse.feel(self._run, self._age_s())
        return self._seen(state, said, tuple(new))

    def _open(self) -> None:
        """run.json is replaced whole; over NFS the old one may be gone before the new one is seen."""
        try:
            run = open_run(self._run.path)
        except UsageError:
            self._misses += 1
            if self._misses > _MISSES:
                raise
            return
        self._misses = 0
        if run.attempt != self._run.attempt or self._placement is None:
            self._placement = read_placement(run.path)
        self._run = run

    def _grown(self, file: Growing) -> Iterator[tuple[Any, str]]:
        """What ``file`` gained, parsed, and where it stands."""
        lines = file.lines()
        for number, line in enumerate(lines, start=file.read - len(lines) + 1):
            if not line.strip(b"\0 \r\t"):
                continue
            try:
                data = json.loads(line)
            except NOT_JSON:  # half a line, which a later attempt has ended
                self._torn += 1
                continue
            except ValueError:
                raise too_many_digits(f"{file.path}:{number}") from None
            yield data, f"{file.path}:{number}"

    def _row(self, data: Any, where: str) -> SeenRow:
        row = row_from_data(data, where=where)
        judged = judge_row(row)
        beside = row.beside is not None or kind_of(self._run.info.configuration) == "overlap"
        if beside and not row.wrong:
            judged = Judged(Verdict.NO_VERDICT, ONLY_DATA)
        point = row.point
        known = self._latest.get(point)
        if known is None or row.attempt >= known[0].attempt:
            if known is not None:
                self._counts[known[1]] -= 1
            self._counts[judged.verdict] += 1
            self._latest[point] = row, judged.verdict
        self._rows.append(row)
        return SeenRow(row, judged.verdict, judged.reason)

    def _seen(self, state: State, said: str, new: tuple[Record, ...]) -> Seen:
        info = self._run.info
        kind = kind_of_run(info)
        done, planned, unit, left, flying = self._progress(kind)
        if state == State.STARTING:
            done, planned, unit, left, flying = 0, None, "", None, ""
        running = state in (State.RUNNING, State.SILENT)
        return Seen(
            run_id=info.run_id,
            name=info.name,
            path=str(self._run.path),
            kind=kind,
            state=state,
            said=said,
            exit_code=info.attempts[-1].exit_code if info.attempts else None,
            attempts=info.attempts,
            done=done,
            planned=planned,
            unit=unit,
            left=left if running else None,
            in_flight=flying if running or state == State.DEAD else "",
            counts=dict(self._counts),
            wrong=sum(row.wrong or 0 for row, _ in self._latest.values()),
            slowest=self._slowest(kind),
            new=new,
            last=tuple(self._last),
            notes=self._notes(),
            tables=tables_of(self._run, kind, [row for row, _ in self._latest.values()],
                             self._placement, over=state == State.ENDED),
        )  # fmt: skip

    def _progress(self, kind: str) -> tuple[int, int | None, str, Left | None, str]:
        """Done, planned, their unit, the time left, what is in flight."""
        info = self._run.info
        if kind == "training":
            done = len(self._steps)
            planned = whole(info.configuration, "train", "steps")
            planned = planned if isinstance(planned, int) else None
            numbers = sorted(self._steps)
            attempt = self._run.attempt
            times = [self._steps[n].time_utc for n in numbers if self._steps[n].attempt == attempt]
            missing = (planned or 0) - (numbers[-1] + 1 if numbers else 0)
            flying = f"step {numbers[-1] + 1 if numbers else 0}" if missing > 0 else ""
            return done, planned, "steps", left_of_steps(times, missing), flying
        if kind == "bringup":  # it keeps its table when all is over
            return 0, None, "", None, ""
        if kind == "soak":
            return self._passes, None, "passes", self._budget("duration_s"), ""
        if kind == "hunt":
            left = self._budget("budget_s")
            at_most = None if left is None else Left(left.seconds, at_most=True)
            return len(self._latest), None, "probes of pairs", at_most, ""
        if overlaps := planned_overlaps(info.configuration) if kind == "overlap" else None:
            missing = overlaps.count - len(self._overlaps)
            times = [x.time_utc for x in self._last if isinstance(x, Overlap)]
            return (
                len(self._overlaps), overlaps.count, "overlaps", left_of_steps(times, missing), "",
            )  # fmt: skip
        if self._planned_for != self._run.attempt and self._run.attempt:
            self._planned_for, self._plan = self._run.attempt, planned_steps(self._run)
        planned = info.planned_points or None
        missing = (planned or 0) - len(self._latest)
        left = left_of_points(self._rows, missing, self._plan, self._latest)
        flying = in_flight(self._plan, self._latest) if self._plan and missing > 0 else ""
        return len(self._latest), planned, "points", left, flying

    def _budget(self, name: str) -> Left | None:
        """Seconds of a time that was given beforehand, less those since the attempt began."""
        budget = self._run.info.configuration.get(name)
        if not self._run.attempt or not isinstance(budget, (int, float)):
            return None
        spent = between(self._run.info.attempts[-1].started_utc, _utc(self._now()))
        return None if spent is None else Left(max(0.0, budget - max(0.0, spent)))

    def _slowest(self, kind: str) -> Slowest | None:
        if kind == "training":
            recent = [self._steps[n] for n in sorted(self._steps)[-LAST:]]
            return slowest_of_steps(recent, self._placement)
        world_size = self._placement.world_size if self._placement else 0
        return self._samples.look(world_size, self._placement)

    def _notes(self) -> tuple[str, ...]:
        notes = []
        again = len(self._rows) - len(self._latest)
        if again > 0:
            notes.append(f"{again} rows are of points measured again; the latest count")
        if self._torn:
            notes.append(f"{self._torn} half-written lines skipped (a crash or a full disk)")
        return tuple(notes)

    def _age_s(self) -> float:
        return between(self._run.info.created_utc, _utc(self._now())) or 0.0


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
