"""``clusterlab predict score``: how far predictions are from measurements in a CSV file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterlab.core.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from clusterlab.cost.scoring.scores import Figures
    from clusterlab.runs.scoring import ByGroup, ScoreReport

EPILOG = """Examples:

  clusterlab predict score nccl_tests.csv

  clusterlab predict score nccl_tests.csv --by n_ranks,size_band --json

The file has at least the columns system, collective, n_ranks, size_bytes and time_us (or busbw_GBps);
gpu, n_nodes, gpus_per_node, intra_fabric and inter_fabric say what the machines are, algo and proto what
was forced, health which tables count (healthy).

A cell that is no number of its kind (soon, nan, -3) is an error with its line and column. Rows with a time
of 0, below 0.1 us or above an hour, or a busbw above 3600 GB/s are left out, counted and named. Where nothing
is known of a GPU, a link or a network, rows are not predicted and say why; each counts as 100 % too fast.

Exit codes: 0 scored, 2 not readable, 3 nothing could be predicted or no row is left (the reason on stderr).
"""
_PROGRESS_ROWS = 1000


def score(
    file: Annotated[
        Path, typer.Argument(help="Measurements, one row a size (CSV); - for standard input.")
    ],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="Group by these columns: system, collective, table_id, gpu, n_nodes, n_ranks, "
            "nccl_version, dtype, size_band, intra_fabric, inter_fabric, in_place, algorithm.",
        ),
    ] = "system,collective",
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", help="Predict all rows on this fabric, whatever the file says."),
    ] = None,
    one_latency: Annotated[
        bool,
        typer.Option(
            "--one-latency",
            help="Add to each table's predictions what its smallest rows miss; score the other rows.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score predictions against measured rows, NCCL's own model beside them."""
    from clusterlab.runs.scoring import ScoreOptions, report_data, score_file

    report = score_file(ScoreOptions(file, by, fabric, one_latency), progress=_progress)
    if as_json:
        typer.echo(json.dumps(report_data(report)))
    else:
        for line in _lines(report):
            typer.echo(line)
    if report.no_verdict is not None:
        typer.echo(f"clusterlab: {report.no_verdict}", err=True)
        raise typer.Exit(ExitCode.NO_VERDICT)


def _progress(done: int, rows: int) -> None:
    if done % _PROGRESS_ROWS == 0 and rows > _PROGRESS_ROWS:
        print(f"clusterlab: {done} of {rows} points predicted", file=sys.stderr, flush=True)


def _lines(report: ScoreReport) -> Iterator[str]:
    if not report.scored:
        yield from _remarks(report)
        return
    keys = list(report.ours.groups[0][0]) if report.ours.groups else []
    widths = _widths(report)
    yield _row(keys, widths, ["n", "missed", "MAPE", "median", "p90", "bias", "NCCL's own"])
    yield from _group_lines(report.ours.groups, report.library.groups, widths)
    yield ""
    yield from _group_lines(_one(report.ours.overall), _one(report.library.overall), widths)
    for ours, library in (
        (report.ours.by_size_band, report.library.by_size_band),
        (report.ours.by_nodes, report.library.by_nodes),
    ):
        yield ""
        yield from _group_lines(ours, library, widths)
    yield ""
    yield from _table_lines(report)
    yield from _summary(report)


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


_TABLE = "{:<38}{:<16}{:>6}{:>6}{:>9}{:>9}{:>9}{:>13}  {}"


def _table_lines(report: ScoreReport) -> Iterator[str]:
    titles = ("table", "collective", "ranks", "rows", "MAPE", "bias", "plateau", "measured")
    yield _TABLE.format(*titles, "how").rstrip()
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


def _summary(report: ScoreReport) -> Iterator[str]:
    found = report.plateau
    yield ""
    yield (
        f"plateau (busbw of the largest two sizes): within 10% for {_pct(found.within_10_pct)}, "
        f"within 20% for {_pct(found.within_20_pct)} of {found.tables} tables; "
        f"median of table MAPEs {_pct(found.median_table_mape_pct)}"
    )
    yield from _remarks(report)


def _remarks(report: ScoreReport) -> Iterator[str]:
    yield from (f"note: {note}" for note in report.notes)
    yield from (f"assumed: {line}" for line in report.assumed)
    yield from (f"not predicted, {count} rows: {why}" for why, count in report.misses.items())
