"""A run for a terminal: measured beside predicted and bound, at most 100 columns wide."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from clusterlab.core.findings import Verdict
from clusterlab.core.sizes import human_size
from clusterlab.records.schema import jsonable
from clusterlab.report.console.chosen import chosen_line
from clusterlab.report.console.groups import group_lines
from clusterlab.report.console.overhead import HEADS as OVERHEAD_HEADS
from clusterlab.report.console.overhead import OverheadTable, overhead_tables
from clusterlab.report.console.overlap import overlap_notes, overlap_table, overlaps_to_json
from clusterlab.report.console.pairs import pair_lines
from clusterlab.report.console.soak import soak_lines
from clusterlab.report.console.steps import training_lines
from clusterlab.report.curves import Curve, Halves, curves
from clusterlab.report.data import ReportData
from clusterlab.report.numbers import NOT_KNOWN, percent, ratio, three_digits
from clusterlab.report.text import plain
from clusterlab.verdict.groups import groups_to_json
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.overhead import overheads_to_json
from clusterlab.verdict.pairs import pairs_to_json
from clusterlab.verdict.run_verdict import RunVerdict
from clusterlab.verdict.run_verdict_json import run_verdict_to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

WIDTH = 100

MOST_ROWS = 5000
"""Points up to which each is printed: five thousand lines take seconds, and nobody reads them."""

_STYLES = {
    Verdict.PASS: "green",
    Verdict.SLOW: "bold yellow",
    Verdict.FAST_UNEXPECTED: "cyan",
    Verdict.NO_VERDICT: "dim",
    Verdict.INVALID: "bold red",
}


def print_run(
    data: ReportData, file: TextIO | None = None, headline: Headline | None = None
) -> None:
    """Print verdict and headline, one table per curve, summary by collective and pairs of ranks, on ``file``
    (stdout).

    Colour only on a terminal; a pipe gets the same text, 100 columns wide.
    """
    from rich.console import Console

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    console = Console(
        file=file,
        highlight=False,
        markup=False,
        emoji=False,
        width=min(WIDTH, console.width) if console.is_terminal else WIDTH,
    )
    _print_head(console, data, headline)
    if len(data.judged_rows) <= MOST_ROWS:
        _print_curves(console, data)
    else:
        _print_line(
            console,
            f"{len(data.judged_rows):,} points are too many to print one by one: report.html has their "
            "curves, --csv all of them.",
        )
    if data.run_verdict.summaries:
        console.print(_summary_table(data.run_verdict))
    for line in pair_lines(data.pairs, data.placement):
        _print_line(console, line)
    for line in group_lines(data.groups, data.placement):
        _print_line(console, line.removeprefix("# ").removeprefix("#"))
    for line in _beside_lines(data):
        _print_line(console, line)
    _print_findings(console, data)


def _print_curves(console: Console, data: ReportData) -> None:
    for curve in curves(data.judged_rows):
        console.print(_curve_table(curve))
        if chosen := chosen_line(curve):
            _print_line(console, f"  {chosen}")
    for table in overhead_tables(data.overheads):
        console.print(_overhead_table(table))


def run_data(data: ReportData, headline: Headline | None = None) -> dict[str, Any]:
    """What ``print_run`` shows, as plain data: run, verdict, notes, findings and all rows. ``verdict`` is
    that of the run's own predictions, ``headline`` what a page begins with.
    """
    return {
        "run_id": data.run.info.run_id,
        "path": str(data.run.path),
        **run_verdict_to_json(data.run_verdict),
        "verdict": data.judged.verdict.value,
        "reason": data.judged.reason,
        "headline": None if headline is None else _headline_data(headline),
        "notes": list(data.notes),
        "pairs": pairs_to_json(data.pairs),
        "groups": groups_to_json(data.groups, data.placement),
        "framework_overhead": overheads_to_json(data.overheads),
        "overlaps": overlaps_to_json(data.overlaps),
        "soaked": [one.to_json() for one in data.soaked],
        "steps": [one.to_json() for one in data.steps],
        "collectives": [asdict(one) for one in data.kinds],
        "experts": [one.to_json() for one in data.loads],
        "findings": [f.to_json() for f in data.findings],
        "rows": [jsonable(row) for row in data.rows],
    }


def _beside_lines(data: ReportData) -> list[str]:
    """What ran beside what, what a soak says, and the steps of a training."""
    lines = [
        *soak_lines(data.soaked),
        *training_lines(data.steps, data.kinds, data.loads, data.kinds_of),
    ]
    if data.overlaps:
        lines += ["", *overlap_table(data.overlaps), *overlap_notes(data.overlaps)]
    return lines


def _headline_data(found: Headline) -> dict[str, Any]:
    return {**asdict(found), "verdict": found.verdict.value}


def _print_head(console: Console, data: ReportData, headline: Headline | None) -> None:
    from rich.text import Text

    judged = data.judged
    _print_line(console, data.run.info.run_id)
    if headline is not None and headline.by_why:
        word = Text.assemble((headline.verdict.value, _STYLES[headline.verdict]))
        _print_line(console, word.append(f": {plain(headline.sentence)}"))
        _print_line(console, f"by its own predictions {data.verdict_word}: {judged.reason}")
    else:
        word = Text.assemble((data.verdict_word, _STYLES[judged.verdict]))
        _print_line(console, word.append(f": {plain(judged.reason)}"))
        if headline is not None and judged.reason.split("; ")[0] not in headline.worst:
            _print_line(console, headline.sentence)
    if headline is not None:
        if headline.command:
            _print_line(console, f"next: {headline.command}")
        if headline.advice:
            _print_line(console, f"{'look at' if headline.command else 'next'}: {headline.advice}")
    for note in data.notes:
        _print_line(console, f"note: {note}")
    for source in data.sources:
        _print_line(console, source)


def _print_line(console: Console, line: Text | str) -> None:
    """Print ``line`` whole: a path that is broken over lines cannot be copied. Names in it act on nothing."""
    console.print(plain(line) if isinstance(line, str) else line, soft_wrap=True)


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(plain(title)),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )


def _curve_table(curve: Curve) -> Table:
    table = _table(curve.title)
    table.add_column("size", justify="right", no_wrap=True)
    for name in ("time us", "busbw GB/s", "in place", "predicted", "bound", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for halves in curve.sizes:
        verdict = halves.judged.verdict
        table.add_row(*_cells(halves), verdict.value, style=_row_style(verdict))
    return table


def _overhead_table(found: OverheadTable) -> Table:
    table = _table(found.title)
    for head in OVERHEAD_HEADS:
        table.add_column(head.lower(), justify="right", no_wrap=True)
    for cells in found.rows:
        table.add_row(*cells)
    return table


def _cells(halves: Halves) -> list[str]:
    row, other = halves.first, halves.in_place
    return [
        human_size(row.size_bytes) + ("*" if row.padded else ""),
        three_digits(row.time_us_loop),
        three_digits(halves.out_of_place.busbw_GBps) if halves.out_of_place else NOT_KNOWN,
        three_digits(other.busbw_GBps) if other else NOT_KNOWN,
        three_digits(row.predicted_busbw_GBps),
        three_digits(row.bound_busbw_GBps),
        ratio(row.ratio),
    ]


def _row_style(verdict: Verdict) -> str | None:
    return None if verdict == Verdict.PASS else _STYLES[verdict]


def _summary_table(run: RunVerdict) -> Table:
    table = _table(
        "Predicted against measured time, by collective: (predicted - measured) / measured"
    )
    table.add_column("collective", no_wrap=True)
    for name in ("points", "median", "p90", "bias", "slow", "fast", "wrong", "worst at"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for s in run.summaries:
        table.add_row(
            plain(s.collective),
            str(s.points),
            percent(s.median_error),
            percent(s.p90_error),
            percent(s.bias, signed=True),
            str(s.counts[Verdict.SLOW]),
            str(s.counts[Verdict.FAST_UNEXPECTED]),
            NOT_KNOWN if s.unchecked == s.points else str(s.wrong),
            human_size(s.worst.row.size_bytes) if s.worst else NOT_KNOWN,
            s.judged.verdict.value,
            style=_row_style(s.judged.verdict),
        )
    return table


def _print_findings(console: Console, data: ReportData) -> None:
    for finding in data.findings:
        ranks = f" ranks {', '.join(map(str, finding.ranks))}" if finding.ranks else ""
        _print_line(console, f"{finding.severity.value}: {finding.code}{ranks}")
        for line in finding.evidence:
            _print_line(console, f"  {line}")
        _print_line(console, f"  fix: {finding.fix}")
