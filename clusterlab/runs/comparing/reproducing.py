"""Whether one run reproduces another: their rows point by point, once both are fit to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from clusterlab.records.run_dir import open_run
from clusterlab.records.store import latest_rows
from clusterlab.runs.comparing.sides_of_runs import side_of_run
from clusterlab.verdict.against.side import Side, label
from clusterlab.verdict.reproduce import Outcome, Reproduction, reproduce


def reproduced(first: Path, second: Path) -> Reproduction:
    """``second`` beside ``first``. Raises UsageError for what is no run, or is damaged.

    Wrong data is invalid whatever its times are. A run beside itself, or one that contradicts itself, says
    nothing; one that lacks rows may differ in what there is, but reproduces nothing.
    """
    rows = [latest_rows(open_run(path).records().rows).rows for path in (first, second)]
    found = reproduce(*rows)
    sides = (side_of_run(first), side_of_run(second))
    for side in sides:
        if side.wrong:
            said = f"{side.name} delivered wrong data at {len(side.wrong)} points, the first is "
            return replace(found, outcome=Outcome.INVALID, reason=said + label(side.wrong[0]))
    unfit = _unfit(sides)
    if found.outcome is not Outcome.DIFFERENT:
        unfit += _missing(sides, found.alone)
    if not unfit or found.outcome is Outcome.NOTHING:
        return found
    return replace(found, outcome=Outcome.UNFIT, reason="; ".join((*unfit, found.reason)))


def _unfit(sides: tuple[Side, Side]) -> list[str]:
    first, second = sides
    found = [f"{side.name}: {problem}" for side in sides for problem in side.problems]
    if first.run_id == second.run_id:
        found.append(f"{first.run_id} is given twice: a run is no repeat of itself")
    return found


def _missing(sides: Sequence[Side], alone: tuple[int, int]) -> list[str]:
    """Rows that should be there: of a run's own plan, else those that the other has."""
    found = []
    for side, lacks in zip(sides, reversed(alone), strict=True):
        if side.missing:
            found.append(f"{side.name} lacks {side.missing} points of its plan")
        elif lacks:
            found.append(f"{side.name} lacks {lacks} points that the other has")
    return found
