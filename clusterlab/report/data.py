"""Everything a report shows, gathered once: run.json, rows, placement, fabric, findings, verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from clusterlab.core.findings import Finding, Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import CollectiveSummary, ExpertLoad, StepLine
from clusterlab.records.documents import (
    FabricReference,
    read_fabric,
    read_findings,
    read_placement,
)
from clusterlab.records.ledgers import covered_by, read_collectives
from clusterlab.records.lines import read_lines
from clusterlab.records.run_dir import RunDir
from clusterlab.records.store import latest_rows, mixed_schemas
from clusterlab.verdict.against.side import split_passes, timed
from clusterlab.verdict.groups import GroupTable, group_tables
from clusterlab.verdict.judge import Judged, judge_rows
from clusterlab.verdict.overhead import Overhead, overheads
from clusterlab.verdict.overlap import PlannedOverlaps, judge_overlaps, planned_overlaps
from clusterlab.verdict.pairs import PairTable, pair_tables
from clusterlab.verdict.run_verdict import RunVerdict, judge_run
from clusterlab.verdict.soak import Soaked, judge_soak, soak_word, soaked, tolerance_of
from clusterlab.verdict.steady import Quiet, quiet

_MOST_SOURCES = 3


@dataclass(frozen=True, slots=True)
class ReportData:
    """One run, read and compared. ``rows`` holds one row per point, the latest; ``notes`` are plain
    sentences about what is missing or odd (unreadable lines, points measured twice, no end). ``pairs``
    are the tables of rows that pairs of ranks took part in, ``groups`` of those of
    groups of ranks, ``overlaps`` what ran beside what, ``soaked`` what the ``passes`` of a soak
    say, ``overheads`` points that were called in several ways, ``steps`` those of a training,
    ``kinds`` its collectives, those of ``kinds_of``, ``loads`` what its experts
    took. ``said``: what each row was judged to be, by its identity; ``noise``: whether the machine was noisy.
    """

    run: RunDir
    rows: tuple[Row, ...]
    run_verdict: RunVerdict
    pairs: tuple[PairTable, ...]
    placement: Placement | None
    fabric: FabricReference | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    noise: Quiet
    overlaps: tuple[Overlap, ...] = ()
    soaked: tuple[Soaked, ...] = ()
    overheads: tuple[Overhead, ...] = ()
    groups: tuple[GroupTable, ...] = ()
    steps: tuple[StepLine, ...] = ()
    kinds: tuple[CollectiveSummary, ...] = ()
    kinds_of: str = ""
    loads: tuple[ExpertLoad, ...] = ()
    passes: tuple[SoakPass, ...] = ()
    said: Mapping[int, Judged] = field(default_factory=dict, repr=False, compare=False)

    @property
    def judged(self) -> Judged:
        """The run's verdict: what its passes say of a soak, its data of overlaps, else what its rows say
        beside the predictions.
        """
        if self.steps:
            return Judged(Verdict.NO_VERDICT, "a training run; its steps are not judged")
        if planned := self.planned_overlaps:
            return judge_overlaps(self.overlaps, planned)
        return judge_soak(self.soaked) if self.soaked else self.run_verdict.judged

    @property
    def verdict_word(self) -> str:
        """The verdict in a word, for people."""
        verdict = self.judged.verdict
        return soak_word(verdict) if self.soaked else verdict.value

    @property
    def sources(self) -> tuple[str, ...]:
        """Where the intervals are from that points were judged by, a sentence each; the first few."""
        kinds = self.run_verdict.judged_by
        said = tuple(f"Judged by {kind}" for kind in kinds[:_MOST_SOURCES])
        left = len(kinds) - _MOST_SOURCES
        return (*said, f"Judged by {left} more kinds of intervals.") if left > 0 else said

    @property
    def planned_overlaps(self) -> PlannedOverlaps | None:
        """None for a run that is none of overlaps."""
        return planned_overlaps(self.run.info.configuration)

    @property
    def judged_rows(self) -> tuple[Row, ...]:
        """Those that stand beside their predictions."""
        return () if self.planned_overlaps else self.rows

    @property
    def measured(self) -> str:
        """How much of what was planned: ``3 of 4 points``, ``2 of 2 overlaps``."""
        if overlaps := self.planned_overlaps:
            return overlaps.measured(self.overlaps)
        planned = self.run.info.planned_points
        return f"{len(self.rows)} of {planned} points" if planned is not None else "no point"


def load(run: RunDir) -> ReportData:
    """Read and judge ``run``. Raises UsageError when one of its files is damaged."""
    records = run.records()
    lines = read_lines(run.path)
    latest = latest_rows(records.rows)
    of_overlaps = planned_overlaps(run.info.configuration)
    said = judge_rows(latest.rows)
    noise = quiet(latest.rows)
    run_verdict = judge_run(
        latest.rows,
        planned_points=run.info.planned_points,
        by_data_only=of_overlaps is not None,
        said=said,
        problems=(*mixed_schemas(records.schemas), *_twice(records.rows)),
    )
    return ReportData(
        run=run,
        rows=latest.rows,
        run_verdict=run_verdict,
        pairs=pair_tables(latest.rows),
        placement=read_placement(run.path),
        fabric=read_fabric(run.path),
        findings=read_findings(run.path),
        notes=(
            *_notes(run, len(latest.rows), latest.superseded),
            *_unknown_attempts(run, records.rows),
            *noise_notes(latest.rows, noise, of_sweep=not lines.passes and of_overlaps is None),
            *records.warnings,
            *lines.warnings,
        ),
        noise=noise,
        overlaps=lines.overlaps,
        soaked=soaked(lines.passes, tolerance_of(run.info.configuration)),
        overheads=overheads(latest.rows),
        groups=group_tables(latest.rows),
        steps=lines.steps,
        kinds=read_collectives(run.path),
        kinds_of=covered_by(run.path),
        loads=lines.experts,
        passes=lines.passes,
        said=said,
    )


def _unknown_attempts(run: RunDir, rows: Sequence[Row]) -> list[str]:
    """Rows that say they are of an attempt of which run.json does not know."""
    known = len(run.info.attempts)
    later = Counter(row.attempt for row in rows if row.attempt > known)
    if not later:
        return []
    count, last = later.total(), max(later)
    of = f"attempt {last}" if len(later) == 1 else f"attempts up to {last}"
    have = f"{known} attempt{'' if known == 1 else 's'}"
    are = "row is" if count == 1 else "rows are"
    return [f"{count} {are} of {of}, of which run.json ({have}) does not know."]


def _twice(rows: Sequence[Row]) -> tuple[str, ...]:
    """Points that one attempt holds twice with different figures."""
    # Most runs hold no point twice, which a few fields tell without making points of a hundred thousand rows.
    seen = Counter(map(_coarse, rows))
    again = [row for row in rows if seen[_coarse(row)] > 1] if len(seen) < len(rows) else []
    return split_passes(point for row in again if (point := timed(row)))[2]


_coarse = attrgetter(
    *("requested_bytes", "collective", "dtype", "op", "root", "in_place", "ranks"),
    *("timing", "beside", "attempt"),
)
"""What two rows of one point and attempt have in common, and perhaps others."""


def noise_notes(rows: Sequence[Row], found: Quiet, *, of_sweep: bool = True) -> list[str]:
    """Whether the machine was noisy, or some points unsteady (verdict/steady.py has the rule). None of wrong
    data, which is worse, none of a soak: its rows are of one pass, and its verdict knows noise, and none of
    overlaps, whose figures state their intervals.
    """
    if not of_sweep or any(row.wrong for row in rows):
        return []
    if found.noisy:
        what = found.what[0].upper() + found.what[1:]
        help_ = " More iterations help (-n; of bench, -n auto)." if found.few else ""
        return [f"{what}: {'; '.join(found.reasons)}. Another run may find other figures.{help_}"]
    if found.unsteady:
        return [
            f"{found.unsteady} of {found.points} points were unsteady while they were measured: another run "
            "may find other figures there."
        ]
    return []


def _notes(run: RunDir, points: int, superseded: int) -> list[str]:
    attempts = run.info.attempts
    planned = run.info.planned_points
    notes = []
    if not attempts:
        notes.append("No attempt was started: the run directory was made, nothing was measured.")
    elif attempts[-1].ended_utc is None:
        notes.append(
            f"Attempt {attempts[-1].number} has not ended: it is still running, or was killed."
        )
    elif attempts[-1].exit_code:
        notes.append(
            f"Attempt {attempts[-1].number} ended with exit code {attempts[-1].exit_code}."
        )
    if planned is not None and points < planned:
        notes.append(f"{points} of {planned} planned points were measured.")
    if superseded:
        notes.append(
            f"{superseded} points were measured again by a later attempt; the latest counts."
        )
    return notes
