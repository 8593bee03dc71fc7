"""From measurements to a system's own constants: what ``clusterlab calibrate`` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterlab import __version__
from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.calibrated.alpha_beta import fit_alpha_beta
from clusterlab.cost.calibrated.build import build_calibration, fit_launch, of_one_class
from clusterlab.cost.calibrated.calibration import SourceFile, SystemCalibration
from clusterlab.cost.calibrated.points import FitPoint, fit_point
from clusterlab.cost.scoring.scored import score_one
from clusterlab.cost.types import Issue, PredictRequest
from clusterlab.runs.calibrating.calibration_rows import AskedRow, Rows, read_rows
from clusterlab.runs.calibrating.hold_out import (
    HeldScore,
    check_held,
    held,
    held_scores,
    read_conditions,
)
from clusterlab.runs.typed import issue_named
from clusterlab.topology.opening import open_fabric

_SHOWN = 20

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CalibrateOptions:
    """What was typed. ``system`` is one of several in the files, ``fabric`` takes the place of what they say,
    ``hold_out`` are words KEY=VALUE, or ``half``. ``timing``: how the calls to fit were issued.
    """

    inputs: tuple[Path, ...]
    system: str | None = None
    fabric: str | None = None
    hold_out: tuple[str, ...] = ()
    timing: str | None = None


@dataclass(frozen=True, slots=True)
class CalibrateReport:
    """``calibration`` of all rows but those held out; ``held_out`` their scores, empty where none were.
    ``notes``: what was left out, and why.
    """

    calibration: SystemCalibration
    rows: int
    held_out: tuple[HeldScore, ...]
    notes: tuple[str, ...]


def calibrate(options: CalibrateOptions, *, progress: Progress) -> CalibrateReport:
    """Fit, leave out and score. Raises UsageError for rows that cannot be read, are of several systems, or
    are too few; ``progress`` gets lines for people.
    """
    conditions = read_conditions(options.hold_out)
    fabric = None if options.fabric is None else open_fabric(options.fabric)
    found = read_rows(options.inputs, fabric)
    system, mine = _of_system(found.rows, options.system)
    measured = [row.point for row in mine]
    if conditions:
        check_held(measured, conditions)
    kept_out = held(measured, conditions)
    out = [row for row, apart in zip(mine, kept_out, strict=True) if apart]
    rest = [row for row, apart in zip(mine, kept_out, strict=True) if not apart]
    issue, others = _issue_to_fit(rest, options.timing)
    fitted = [row for row in rest if row.fits and row.issue == issue]
    points, counts, notes = _fit_points(fitted, system)
    notes = [*others, *notes]
    progress(f"fitting {len(points)} points of {system}, and without each part of them in turn")
    try:
        calibration = build_calibration(
            points,
            system=system,
            sources=_sources(found, counts),
            date_utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            made_by=f"clusterlab {__version__}",
            issue=issue,
        )
    except UsageError:
        for note in (*found.notes, *notes):  # why there may be too few
            progress(note)
        raise
    calibration = _with_launches(calibration, rest)
    scores = _held_out(out, calibration, points) if out else ()
    return CalibrateReport(calibration, len(points), scores, (*found.notes, *notes))


def _of_system(rows: Sequence[AskedRow], wanted: str | None) -> tuple[str, list[AskedRow]]:
    """The rows of one system: of the one asked for, else of the only one."""
    counts = Counter(row.point.system for row in rows)
    if wanted is not None and wanted not in counts:
        raise unknown("system", wanted, counts, where="--system")
    if wanted is None and len(counts) > 1:
        listed = [f"{name} ({count} points)" for name, count in counts.most_common(_SHOWN)]
        more = f", and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
        raise UsageError(
            f"measurements of {len(counts)} systems: {', '.join(listed)}{more}",
            where="calibrate",
            expected="one system",
            fix="name one with --system",
        )
    system = wanted if wanted is not None else next(iter(counts))
    return system, [row for row in rows if row.point.system == system]


_BEST_FIRST: tuple[Issue, ...] = ("graph", "library", "eager")
"""What hides issuing wholly first: the others are the same work, no faster than calls can be issued."""


def _issue_to_fit(rows: Sequence[AskedRow], wanted: str | None) -> tuple[Issue, list[str]]:
    """The timing whose rows are fitted: the one asked for, else the best there is, and a note of others."""
    counts = Counter(row.issue for row in rows if row.fits)
    if not counts:
        raise UsageError(
            f"none of {len(rows)} rows took longer than issuing calls does", where="calibrate",
            expected="larger sizes, or rows of timing graph or direct",
        )  # fmt: skip
    if wanted is not None:
        issue = issue_named(wanted)
        if issue not in counts:
            raise unknown("timing", wanted, counts, where="--timing")
        return issue, []
    issue = next(one for one in _BEST_FIRST if one in counts)
    others = [f"{count} of timing {name}" for name, count in counts.items() if name != issue]
    if not others:
        return issue, []
    return issue, [
        f"fitted to {counts[issue]} rows of timing {issue}; not to {', '.join(others)} (--timing)"
    ]


def _with_launches(calibration: SystemCalibration, rows: Sequence[AskedRow]) -> SystemCalibration:
    """With the least time between calls that are issued otherwise than the fitted ones, where ``rows`` have
    enough of them.
    """
    calls: dict[Issue, list[tuple[float, float]]] = {}
    for row in rows:
        if row.issue not in ("graph", calibration.issue) and isinstance(
            row.request, PredictRequest
        ):
            fitted = replace(row.request, issue=calibration.issue, calibration=calibration)
            work = score_one(row.point, fitted).predicted_us
            if work is not None:
                calls.setdefault(row.issue, []).append((row.point.time_us, work))
    launches = (fit_launch(issue, calls[issue]) for issue in sorted(calls))
    return replace(calibration, launches=tuple(one for one in launches if one is not None))


def _fit_points(
    rows: Sequence[AskedRow], system: str
) -> tuple[list[FitPoint], Counter[int], list[str]]:
    """What the fit sees of ``rows``, how many of each file, and what was left out."""
    points: list[FitPoint] = []
    files: list[int] = []
    reasons: Counter[str] = Counter()
    for row in rows:
        made = _fit_point(row)
        if isinstance(made, FitPoint):
            points.append(made)
            files.append(row.file)
        else:
            reasons[made] += 1
    if not points:
        (why, count), *_ = reasons.most_common(1)
        raise UsageError(
            f"none of {len(rows)} points can be predicted: {count}: {why}", where=system,
            expected="machines, collectives and types that are known",
            fix="say the machine with --fabric",
        )  # fmt: skip
    kept, others = of_one_class(points)
    if others:
        reasons["another class of GPU than most (one GPU a host)"] += others
    counted = Counter(f for f, p in zip(files, points, strict=True) if p.chip == kept[0].chip)
    notes = [f"{count} points of {system} left out: {why}" for why, count in reasons.items()]
    return kept, counted, notes


def _fit_point(row: AskedRow) -> FitPoint | str:
    """A row's point, or why it is none."""
    if isinstance(row.request, ClusterlabError):
        return str(row.request)
    if row.point.n_ranks < 2:
        return "one rank: nothing is sent"
    try:
        return fit_point(row.request, row.point.time_us)
    except UsageError as error:
        return str(error)


def _sources(found: Rows, counts: Counter[int]) -> list[SourceFile]:
    return [
        SourceFile(name, digest, counts[i])
        for i, (name, digest) in enumerate(found.files)
        if counts[i]
    ]


def _held_out(
    rows: Sequence[AskedRow], calibration: SystemCalibration, fitted: Sequence[FitPoint]
) -> tuple[HeldScore, ...]:
    """The rows held out, by ``predict`` with and without the calibration, and by the usual two figures."""
    asked = [(row.point, row.request) for row in rows if isinstance(row.request, PredictRequest)]
    ours = [score_one(p, replace(r, calibration=calibration)) for p, r in asked]
    plain = [score_one(p, r) for p, r in asked]
    return held_scores(ours, plain, fit_alpha_beta(fitted), [r.issue for _, r in asked])


def report_data(report: CalibrateReport) -> dict[str, Any]:
    """The report as plain data: what ``--json`` prints."""
    return {
        "rows": report.rows,
        "calibration": asdict(report.calibration),
        "held_out": [asdict(score) for score in report.held_out],
        "notes": list(report.notes),
    }
