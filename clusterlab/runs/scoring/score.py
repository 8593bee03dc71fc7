"""A file of measurements, predicted and scored: what ``clusterlab predict score`` answers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.cost.calibrated.file import load_system_calibration
from clusterlab.cost.routing import named_routing
from clusterlab.cost.scoring.asked import Asked
from clusterlab.cost.scoring.calibrated import (
    IntervalsHeld,
    intervals_held,
    of_calibrated_machine,
)
from clusterlab.cost.scoring.measured import Measured, measured_in, read_measured
from clusterlab.cost.scoring.scored import ScoredPoint, predict_points, with_one_latency
from clusterlab.cost.scoring.scores import (
    ErrorOf,
    Figures,
    Plateaus,
    TableScore,
    check_by,
    figures,
    grouped,
    library_error,
    own_error,
    plateaus,
    table_scores,
)
from clusterlab.cost.scoring.systems import PredictedOn, predicted_on
from clusterlab.runs.scoring import notes
from clusterlab.runs.scoring.worst_row import Worst, saved_fabric, worst
from clusterlab.runs.typed import checked_variables, issue_named, version_named
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.opening import open_fabric

ByGroup = list[tuple[dict[str, Any], Figures]]


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """What was typed. ``fabric`` takes the place of the vocabulary; ``one_latency`` corrects each table
    by its own smallest rows. ``nccl_version`` is for rows that name none, ``variables`` are words
    NAME=VALUE for all rows. ``save_fabric``: the worst row's fabric is wanted as YAML.
    """

    file: Path
    by: str = "system,collective"
    fabric: str | None = None
    one_latency: bool = False
    nccl_version: str | None = None
    variables: tuple[str, ...] = ()
    timing: str | None = None
    routing: str | None = None
    save_fabric: bool = False
    calibration: Path | None = None


@dataclass(frozen=True, slots=True)
class View:
    """One model's figures: over all, by the columns asked for, by size and by nodes."""

    overall: Figures
    groups: ByGroup
    by_size_band: ByGroup
    by_nodes: ByGroup


@dataclass(frozen=True, slots=True)
class ScoreReport:
    """All that is said of one file. ``by``: the columns of ``ours.groups``. ``systems``: what the rows were
    predicted on. ``misses``: why rows could not be predicted, how many each. ``assumed``: what
    descriptions leave open and the vocabulary fills in; ``notes`` the rest to know. ``intervals``: how
    many rows lie in theirs, where predictions have any. ``worst``: the row furthest off; ``saved_fabric``
    its fabric as YAML, where that was wanted. ``no_verdict``: why there is no score at all.
    """

    measured: Measured
    scored: tuple[ScoredPoint, ...]
    by: tuple[str, ...]
    systems: tuple[PredictedOn, ...]
    ours: View
    library: View
    tables: tuple[TableScore, ...]
    plateau: Plateaus
    misses: dict[str, int]
    assumed: tuple[str, ...]
    notes: tuple[str, ...]
    intervals: tuple[IntervalsHeld, ...] = ()
    worst: Worst | None = None
    saved_fabric: str | None = None
    no_verdict: str | None = None


def score_file(
    options: ScoreOptions, *, progress: Callable[[int, int], None] | None = None
) -> ScoreReport:
    """Predict and score every row that counts; ``-`` is standard input. Raises UsageError for input that
    cannot be scored.
    """
    by = check_by(options.by)
    asked = _asked(options)
    if asked.calibration is not None and options.one_latency:
        raise UsageError(
            "a calibration knows its machine's latency", where="--one-latency",
            expected="that or --calibration",
        )  # fmt: skip
    if options.save_fabric and options.fabric is not None:
        raise UsageError(
            f"all rows are predicted on {options.fabric}", where="--save-fabric",
            expected="a score without --fabric",
        )  # fmt: skip
    if options.file.is_dir():
        raise UsageError(
            "a folder", where=str(options.file), expected="a CSV file",
            fix="for a run: clusterlab runs score RUN, or calibrate RUN --hold-out half",
        )  # fmt: skip
    if str(options.file) == "-":
        measured = measured_in(sys.stdin.buffer, file="standard input")
    else:
        measured = read_measured(options.file)
    if not measured.points:
        raise notes.nothing_counts(measured)
    measured, alone = _of_several_ranks(measured)
    fabric = None if options.fabric is None else open_fabric(options.fabric)
    if fabric is not None:
        _check_room(fabric, measured, options)
    others: Counter[str] = Counter()
    if asked.calibration is not None:
        mine = of_calibrated_machine(measured.points, fabric, asked)
        measured, others = replace(measured, points=mine.points), mine.others
    everything = predict_points(measured.points, fabric=fabric, asked=asked, progress=progress)
    scored = with_one_latency(everything) if options.one_latency else everything
    tables = table_scores(scored)
    systems = predicted_on(measured.points, fabric, asked)
    found = worst(scored, options.file, fabric, options.fabric, asked)
    save = options.save_fabric and found is not None
    return ScoreReport(
        measured=measured,
        scored=tuple(scored),
        by=by,
        systems=tuple(systems),
        ours=_view(scored, by, own_error),
        library=_view(scored, by, library_error),
        tables=tuple(tables),
        plateau=plateaus(tables),
        misses=dict(Counter(s.reason for s in everything if s.predicted_us is None)),
        assumed=() if fabric is not None else notes.assumed(measured),
        notes=(
            *notes.asked_notes(asked),
            *notes.other_machine_notes(others, asked),
            *notes.version_notes(measured.points, asked, systems),
            *notes.choice_notes(measured.points, asked),
            *notes.left_out_notes(measured),
            *notes.one_rank_notes(alone),
            *(notes.one_latency_notes(everything, scored) if options.one_latency else ()),
            *notes.remark_notes(scored),
        ),
        intervals=intervals_held(scored),
        worst=found,
        saved_fabric=saved_fabric(found.row, asked) if save and found is not None else None,
        no_verdict=_no_verdict(everything, scored),
    )


def _of_several_ranks(measured: Measured) -> tuple[Measured, int]:
    """Without the rows of one rank, which send nothing, and how many those are. Raises UsageError where no
    other is left.
    """
    points = tuple(p for p in measured.points if p.n_ranks > 1)
    if not points:
        raise UsageError(
            "all rows are of one rank, which sends nothing", where=measured.file,
            expected="rows of at least 2 ranks",
        )  # fmt: skip
    alone = sum(p.samples for p in measured.points if p.n_ranks <= 1)
    return replace(measured, points=points), alone


def _asked(options: ScoreOptions) -> Asked:
    """What holds for all rows. Raises UsageError naming the option."""
    return Asked(
        library_version=version_named(options.nccl_version),
        variables=checked_variables(options.variables),
        issue=issue_named(options.timing),
        routing=None if options.routing is None else named_routing(options.routing),
        calibration=None
        if options.calibration is None
        else load_system_calibration(options.calibration),
    )


def _check_room(fabric: Fabric, measured: Measured, options: ScoreOptions) -> None:
    """Raise UsageError where no row has a place on the fabric that was named."""
    gpus = sum(fabric.models("gpu").values())
    ranks = sorted({point.n_ranks for point in measured.points})
    if ranks[0] <= gpus:
        return
    asked = f"{ranks[0]}" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
    raise UsageError(
        f"{asked} ranks in {measured.file} on a fabric of {gpus} GPUs",
        where=f"--fabric {options.fabric}",
        expected="a GPU for each rank",
        fix="name a larger fabric, or leave --fabric out: the file's words say what its machines are",
    )


def _no_verdict(everything: Sequence[ScoredPoint], scored: Sequence[ScoredPoint]) -> str | None:
    """Why nothing is scored; None where something is."""
    if not scored:
        return (
            "no row is left to score: every table has only the rows that set its latency; measure more "
            "sizes, or score without --one-latency"
        )
    if any(one.predicted_us is not None for one in scored):
        return None
    reasons = Counter(one.reason for one in everything if one.predicted_us is None)
    (why, count), more = reasons.most_common(1)[0], len(reasons) - 1
    rest = f" (and {more} other reasons)" if more else ""
    return f"nothing could be predicted: {count} rows: {why}{rest}"


def _view(scored: Sequence[ScoredPoint], by: Sequence[str], error: ErrorOf) -> View:
    return View(
        overall=figures(scored, error),
        groups=grouped(scored, by, error),
        by_size_band=grouped(scored, ["size_band"], error),
        by_nodes=grouped(scored, ["n_nodes"], error),
    )
