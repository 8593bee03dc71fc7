"""A run as files of nccl-tests' -J: from its directory, at its end or any time later."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusterlab import __version__
from clusterlab.core.rows import Point, Row
from clusterlab.records.documents import read_placement
from clusterlab.records.reading import is_there
from clusterlab.records.run_dir import RunDir
from clusterlab.records.samples import read_samples, samples_path
from clusterlab.records.store import latest_rows
from clusterlab.records.target import write_target
from clusterlab.report.files.nccl_tests_json import About, RankTimes, nccl_tests_json, tables

MOST_TIMES = 1_000_000
"""Single times in one file above which those of each rank are left out, and above that again all of them."""


def write_tests_json(run: RunDir, path: Path, *, message: str | None = None) -> tuple[Path, ...]:
    """Write ``run`` as nccl-tests would; the files written, none for a run without rows of all its ranks.

    A run of one collective in one way is ``path``; of more, each has its names in the file's:
    ``out-all_reduce.json``, ``out-all_reduce-graph.json``. ``message`` is what ended the run early. Raises
    UsageError for a damaged run, StorageError where the disk refuses.
    """
    groups = tables(latest_rows(run.records().rows).rows)
    about = _about(run, message)
    written = []
    for rows in groups:
        target = path if len(groups) == 1 else _named(path, rows[0], groups)
        text = nccl_tests_json(rows, about, _times(run, rows))
        write_target(target, text.encode())
        written.append(target)
    return tuple(written)


def _named(path: Path, row: Row, groups: Sequence[Sequence[Row]]) -> Path:
    """``path`` with the collective, and with whatever else tells the run's tables apart."""
    words = [row.collective]
    if len({group[0].timing for group in groups}) > 1:
        words.append(row.timing)
    words += [word.replace("/", "_") for word in (row.beside, row.uneven) if word]
    if len({group[0].world_size for group in groups}) > 1:
        words.append(f"{row.world_size}")
    return path.with_name("-".join([path.stem, *words]) + path.suffix)


def _about(run: RunDir, message: str | None) -> About:
    attempts = run.info.attempts
    first = attempts[0] if attempts else None
    last = attempts[-1] if attempts else None
    context = last.context if last else run.info.created_by
    # Wrong data is an end like another: nccl-tests closes its file and counts them.
    ended = last is not None and last.exit_code in (0, 1) and message is None
    planned = run.info.planned_points
    if planned is not None and len(latest_rows(run.records().rows).rows) < planned:
        ended = False
    return About(
        command=(first.context if first else run.info.created_by).command,
        made_by=f"clusterlab {__version__}",
        environment=context.environment,
        started_utc=first.started_utc if first else run.info.created_utc,
        ended_utc=last.ended_utc if ended and last else None,
        placement=read_placement(run.path),
        library_version=context.versions.get("nccl"),
        errors=[message] if message else _why_not_ended(last.exit_code if last else None, ended),
    )


def _why_not_ended(exit_code: int | None, ended: bool) -> list[str]:
    if ended:
        return []
    return [
        "the run has not ended"
        if exit_code is None
        else f"the run ended early, exit code {exit_code}"
    ]


def _times(run: RunDir, rows: Sequence[Row]) -> dict[Point, RankTimes]:
    """Every rank's single times of ``rows``, as far as all ranks kept as many; of too many the slowest's."""
    wanted = {row.point: row.attempt for row in rows}
    kept: dict[Point, list[tuple[float, ...]]] = {point: [] for point in wanted}
    ranks = rows[0].world_size
    for rank in range(ranks):
        path = samples_path(run.samples_path, rank)
        if not is_there(path):
            return {}
        for one in read_samples(path).points:
            if wanted.get(one.point) == one.attempt and len(kept[one.point]) == rank:
                kept[one.point].append(one.times_us)
    whole = {
        point: each
        for point, each in kept.items()
        if len(each) == ranks and len({len(times) for times in each}) == 1
    }
    figures = sum(len(each[0]) for each in whole.values())
    if figures * (ranks + 1) <= MOST_TIMES:
        return dict(whole)
    if figures > MOST_TIMES:
        return {}
    return {point: [tuple(map(max, *each))] if ranks > 1 else each for point, each in whole.items()}
