"""What ``clusterlab predict score`` prints of a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from clusterlab.cost.scoring.scored import ScoredPoint
    from clusterlab.cost.scoring.scores import Figures
    from clusterlab.cost.scoring.systems import PredictedOn
    from clusterlab.runs.scoring.score import ByGroup, ScoreReport
    from clusterlab.runs.scoring.worst_row import Worst


def score_lines(report: ScoreReport, rows: Sequence[ScoredPoint]) -> Iterator[str]:
    """The groups, the tables, ``rows`` where they are wanted, the remarks and the row furthest off."""
    if report.no_verdict is not None:
        yield from _remarks(report)
        return
    yield from _system_lines(report.systems)
    missed = report.ours.overall.unpredicted
    if missed:
        yield f"{missed} rows not predicted, each counts as -100% (why: below)"
    yield ""
    keys = list(report.ours.groups[0][0])
    widths = _widths(report)
    yield _row(keys, widths, ["n", "missed", "MAPE", "median", "p90", "bias", "NCCL's own"])
    yield from _group_lines(report.ours.groups, report.library.groups, widths)
    yield ""
    yield from _group_lines(_one(report.ours.overall), _one(report.library.overall), widths)
    for column, ours, library in (
        ("size_band", report.ours.by_size_band, report.library.by_size_band),
        ("n_nodes", report.ours.by_nodes, report.library.by_nodes),
    ):
        if report.by != (column,):
            yield ""
            yield from _group_lines(ours, library, widths)
    yield ""
    yield from _table_lines(report)
    if rows:
        yield ""
        yield from _row_lines(rows)
    yield from _summary(report)
    if report.worst is not None:
        yield ""
        yield from _worst_lines(report.worst)


def _system_lines(systems: Sequence[PredictedOn]) -> Iterator[str]:
    """What the rows were predicted on: each machine, or how many there are."""
    from clusterlab.runs.scoring.notes import MOST_SYSTEMS

    if len(systems) > MOST_SYSTEMS:
        rows = sum(one.rows for one in systems)
        machines = len({one.machine for one in systems})
        yield f"{rows} rows on {machines} machines (--json names them, with their releases)"
        return
    for one in systems:
        where = f"{one.fabric}: {one.machine}" if one.fabric else one.machine
        source = {
            "newest known": " (not said in the file)",
            "--nccl-version": " (--nccl-version)",
            "calibration": " (newest calibrated)",
        }
        release = f"{one.library} {one.version}{source.get(one.version_from, '')}"
        yield f"{one.rows} row{'' if one.rows == 1 else 's'} on {where}, {release}"


def _one(figures: Figures) -> ByGroup:
    return [({"all": "all rows"}, figures)]


def _widths(report: ScoreReport) -> list[int]:
    """Width of each key column: of the columns asked for, enough for the names of sizes and nodes."""
    rows = [[str(k) for k in key] for key, _ in report.ours.groups] + [
        [_shown(k, v) for k, v in key.items()] for key, _ in report.ours.groups
    ]
    columns = list(zip(*rows, strict=True)) or [("",)]
    widths = [max(map(len, column)) + 2 for column in columns]
    widths[0] = max(widths[0], 16)
    return widths


def _group_lines(ours: ByGroup, library: ByGroup, widths: Sequence[int]) -> Iterator[str]:
    for (key, found), (_, theirs) in zip(ours, library, strict=True):
        yield _row(
            [_shown(k, v) for k, v in key.items()],
            widths,
            [
                str(found.n),
                str(found.unpredicted),
                *map(_pct, (found.mape_pct, found.median_pct, found.p90_pct, found.bias_pct)),
                _pct(theirs.mape_pct),
            ],
        )


def _row(keys: Iterable[str], widths: Sequence[int], cells: Sequence[str]) -> str:
    words = list(keys)
    left = "".join(w.ljust(width) for w, width in zip(words, widths, strict=False))
    head = left.ljust(sum(widths))
    return head + "".join(f"{cell:>{max(9, len(cell) + 2)}}" for cell in cells)


def _shown(key: str, value: Any) -> str:
    if key == "n_nodes":
        return f"{value} node{'' if value == 1 else 's'}"
    if key == "n_ranks":
        return f"{value} ranks"
    return "-" if value in (None, "") else str(value)


def _pct(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}%"


_TABLE = "{:<38}{:<16}{:>6}{:>6}{:>9}{:>9}{:>29}{:>13}  {}"


def _table_lines(report: ScoreReport) -> Iterator[str]:
    titles = ("table", "collective", "ranks", "rows", "MAPE", "bias", "plateau predicted/measured")
    yield _TABLE.format(*titles, "measured", "how").rstrip()
    for t in report.tables:
        flaw = f"  {t.beats_bound} rows beat the bound" if t.beats_bound else ""
        yield _TABLE.format(
            t.table_id[:37],
            t.collective,
            t.n_ranks,
            t.figures.n,
            _pct(t.figures.mape_pct),
            _pct(t.figures.bias_pct),
            f"{t.plateau_ratio:.2f}",
            f"{t.plateau_GBps:.4g} GB/s",
            (t.plateau_algorithm or "not predicted") + flaw,
        )


_ROW = "{:<38}{:>10}{:>5}{:>12}{:>12}{:>10}  {:<20}{}"


def _row_lines(rows: Sequence[ScoredPoint]) -> Iterator[str]:
    titles = ("table", "size", "", "measured", "predicted", "error", "algorithm/protocol")
    yield _ROW.format(*titles, "limited by").rstrip()
    yield _ROW.format("", "", "", "(us)", "(us)", "", "", "").rstrip()
    for one in rows:
        point, time_us = one.point, one.predicted_us
        yield _ROW.format(
            point.table[:37],
            human_size(point.size_bytes),
            _place(point.in_place),
            f"{point.time_us:.2f}",
            "-" if time_us is None else f"{time_us:.2f}",
            "missed" if one.error is None else f"{one.error:+.1%}",
            one.algorithm or "-",
            one.limited_by or one.reason,
        ).rstrip()


def _place(in_place: bool | None) -> str:
    """nccl-tests measures both: in place, and out of it."""
    return {None: "", True: "in", False: "out"}[in_place]


def _summary(report: ScoreReport) -> Iterator[str]:
    found = report.plateau
    yield ""
    yield (
        f"plateau (busbw of the largest two sizes): within 10% for {_pct(found.within_10_pct)}, "
        f"within 20% for {_pct(found.within_20_pct)} of {found.tables} tables; "
        f"median of table MAPEs {_pct(found.median_table_mape_pct)}"
    )
    if report.intervals:
        first, *others = report.intervals
        each = ", ".join(f"{one.group} {_pct(one.held_pct)}" for one in others)
        yield f"in their interval: {_pct(first.held_pct)} of {first.n} points ({each})"
    yield from _remarks(report)


def _remarks(report: ScoreReport) -> Iterator[str]:
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"assumed: {line}" for line in report.assumed)
    yield from (f"not predicted, {count} rows: {why}" for why, count in report.misses.items())


def _worst_lines(worst: Worst) -> Iterator[str]:
    """The row furthest off, and what to type to see why."""
    row, point = worst.row, worst.row.point
    place = {None: "", True: ", in place", False: ", out of place"}[point.in_place]
    yield (
        f"worst row: {point.table}, {human_size(point.size_bytes)}{place}: measured {point.time_us:.2f} us, "
        f"predicted {row.predicted_us:.2f} us ({row.error:+.1%}, {row.algorithm}). To see why:"
    )
    if worst.save is not None:
        yield f"  {worst.save}"
    yield f"  {worst.command}"
