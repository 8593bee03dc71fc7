"""What keeps a run's rows from saying that nothing is wrong: some missing, twice, wrong, of other ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from clusterlab.core.errors import NoVerdictError, UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.records.run_dir import RunDir
from clusterlab.records.store import RECORDS, schema_problems
from clusterlab.verdict.against.side import is_time, label, split_passes, timed


def check_runs(runs: Sequence[RunDir]) -> None:
    """Raises NoVerdictError where a run is given twice: its rows are no further measurement."""
    ids = [run.info.run_id for run in runs]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise NoVerdictError(
            f"the same run is given twice: {', '.join(twice)}", fix="name each run once"
        )


def check_ranks(run: RunDir, rows: Sequence[Row], placement: Placement | None) -> None:
    """Raises UsageError where rows are of ranks that the run did not have."""
    if placement is None:
        return
    size = placement.world_size
    for row in rows:
        strange = [rank for rank in row.ranks or () if not 0 <= rank < size]
        if strange or len(set(row.ranks or ())) < len(row.ranks or ()):
            raise UsageError(
                f"a row of ranks {', '.join(map(str, row.ranks or ()))}",
                where=f"{run.path / RECORDS}: ranks",
                expected=f"different ranks below the {size} of placement.json",
                fix="both files are of one run: copy them together",
            )


def problems_of(run: RunDir, every: Sequence[Row], latest: Sequence[Row]) -> tuple[str, ...]:
    """Why nothing that was found in a run's rows is no proof that nothing is there. ``every`` row of the
    file, and the ``latest`` of each point.
    """
    return tuple(f"{run.info.run_id}: {said}" for said in _problems(run, every, latest))


def _problems(run: RunDir, every: Sequence[Row], latest: Sequence[Row]) -> Iterator[str]:
    yield from split_passes(t for row in every if (t := timed(row)))[2]
    yield from schema_problems(run.records_path)
    wrong = [t for row in latest if row.wrong and (t := timed(row))]
    if wrong:
        yield f"wrong data at {len(wrong)} points, the first is {label(wrong[0])}"
    planned = max(len(latest), run.info.planned_points or 0)
    measured = sum(is_time(row.time_us_loop) and 0 < row.algbw_GBps < math.inf for row in latest)
    if measured < planned:
        yield f"{planned - measured} of {planned} planned points were not measured"
