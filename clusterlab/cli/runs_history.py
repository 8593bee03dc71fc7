"""``clusterlab runs list``, ``query``, ``trend`` and ``index``: many run directories at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterlab.cli.runs_options import (
    Backend,
    Cluster,
    Collective,
    Dtype,
    Fabric,
    Group,
    Host,
    IndexFolder,
    Kind,
    Link,
    Name,
    RowVerdict,
    Runs,
    RunVerdict,
    Since,
    Size,
    Timing,
    Until,
)
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.records.index import Index
    from clusterlab.runs.history.filters import Filters

_LIST_EXAMPLE = """Examples:

  clusterlab runs list --since 7d

  clusterlab runs list --host 'n0*' --collective all_reduce --size large --verdict slow

  clusterlab runs list --json | jq -r '.[] | select(.state == "damaged") | .run, .error'

The latest first. What asks for rows (collective, size, …) lists runs with at least one such row.
"""
_QUERY_EXAMPLE = """Examples:

  clusterlab runs query --collective all_reduce --size 1G --since 30d

  clusterlab runs query --link n03,n07 --csv > link.csv

  clusterlab runs query --verdict invalid --json | jq -r '.[].run' | sort -u

One row per point of a run, that of its latest attempt, the latest first.
"""
_TREND_EXAMPLE = """Examples:

  clusterlab runs trend --cluster alps --collective all_reduce

  clusterlab runs trend --size large --since 90d --recent 10

  clusterlab runs trend --host n07 --json | jq '.[].slow_nodes'

Says since when what is slower, and on which nodes: the last runs against those before them, by the rules of
compare and baseline; steps that last; nodes whose runs are slower than those without them; single links,
groups and sizes. Then each point over time. docs/history.md says how it is decided.

Exit codes: 0 nothing slower, 1 slower, 2 bad input, 3 nothing to compare.
"""
_INDEX_EXAMPLE = """Examples:

  clusterlab runs index

  clusterlab runs index --rebuild

The index is kept by every command that uses it; this one does only that. It can be removed at any time.
"""
_MOST_SERIES = 16


def list_runs(
    runs: Runs = None,
    index: IndexFolder = None,
    cluster: Cluster = "",
    fabric: Fabric = "",
    name: Name = "",
    kind: Kind = "",
    host: Host = "",
    since: Since = "",
    until: Until = "",
    verdict: RunVerdict = "",
    collective: Collective = "",
    dtype: Dtype = "",
    timing: Timing = "",
    backend: Backend = "",
    size: Size = "",
    group: Group = "",
    link: Link = "",
    most: Annotated[int, typer.Option("--most", min=0, help="So many, 0: all.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout.")] = False,
) -> int:
    """List run directories: when, what, where, how it ended, the verdict."""
    from clusterlab.report.console.history import RUN_LAYOUT, run_cells
    from clusterlab.runs.history.asking import asked, listed, place
    from clusterlab.runs.history.filters import filters
    from clusterlab.runs.history.plain import run_data

    wanted = filters(
        cluster=cluster, fabric=fabric, name=name, kind=kind, host=host, since=since, until=until,
        verdict=verdict, collective=collective, dtype=dtype, timing=timing, backend=backend, size=size,
        group=group, link=link,
    )  # fmt: skip
    where = place(runs, index)
    (found, total), known = asked(where, lambda i: listed(i, wanted, where.root, most=most))
    data = [run_data(run, where.root) for run in found]
    _say(known)
    if as_json:
        typer.echo(json_text(data))
    elif data:
        _print_table(run_cells(data), RUN_LAYOUT)
        for one in data:
            if one["error"]:
                _print([f"{one['run']}: {one['error']}"])
    _say_how_many(len(data), total, "runs", known, wanted)
    return ExitCode.OK


def query(
    runs: Runs = None,
    index: IndexFolder = None,
    cluster: Cluster = "",
    fabric: Fabric = "",
    name: Name = "",
    kind: Kind = "",
    host: Host = "",
    since: Since = "",
    until: Until = "",
    collective: Collective = "",
    dtype: Dtype = "",
    timing: Timing = "",
    backend: Backend = "",
    size: Size = "",
    group: Group = "",
    link: Link = "",
    verdict: RowVerdict = "",
    most: Annotated[
        int | None,
        typer.Option("--most", min=0, help="So many, 0: all (default 40; with --json, --csv all)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on stdout.")] = False,
) -> int:
    """Find measured rows over all runs."""
    from clusterlab.report.console.history import ROW_LAYOUT, csv_lines, row_cells
    from clusterlab.runs.history.asking import asked, place
    from clusterlab.runs.history.filters import filters
    from clusterlab.runs.history.query import FIELDS, queried, row_dicts

    wanted = filters(
        cluster=cluster, fabric=fabric, name=name, kind=kind, host=host, since=since, until=until,
        verdict=verdict, collective=collective, dtype=dtype, timing=timing, backend=backend, size=size,
        group=group, link=link,
    )  # fmt: skip
    if as_json and as_csv:
        raise UsageError("one stdout", where="--json, --csv", expected="one of them")
    limit = most if most is not None else 0 if as_json or as_csv else 40
    (found, total), known = asked(place(runs, index), lambda i: queried(i, wanted, most=limit))
    rows = row_dicts(found, known)
    _say(known)
    if as_csv:
        for text in csv_lines(rows, FIELDS):
            sys.stdout.write(text)
    elif as_json:
        for text in _json_list(rows):
            sys.stdout.write(text)
    elif total:
        _print_table(row_cells(rows), ROW_LAYOUT)
    _say_how_many(found.table.rows, total, "rows", known, wanted)
    return ExitCode.OK


def trend(
    runs: Runs = None,
    index: IndexFolder = None,
    cluster: Cluster = "",
    fabric: Fabric = "",
    name: Name = "",
    kind: Kind = "",
    host: Host = "",
    since: Since = "",
    until: Until = "",
    collective: Collective = "",
    dtype: Dtype = "",
    timing: Timing = "",
    backend: Backend = "",
    size: Size = "",
    group: Group = "",
    link: Link = "",
    verdict: RowVerdict = "",
    recent: Annotated[
        int, typer.Option("--recent", min=1, max=1000, help="The last runs that are compared.")
    ] = 5,
    tolerance: Annotated[
        str, typer.Option("--tolerance", help="Smaller steps and slow nodes are not named.")
    ] = "3%",
    every: Annotated[
        bool, typer.Option("--all", help="Every series, not the 16 that changed most.")
    ] = False,
    values: Annotated[
        bool, typer.Option("--values", help="With --json: every run of every series.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout.")] = False,
) -> int:
    """Follow points over runs: what is slower, since when, on which nodes."""
    from clusterlab.runs.history.asking import asked, place
    from clusterlab.runs.history.filters import filters
    from clusterlab.runs.history.plain import machine_data
    from clusterlab.runs.history.trend import machines
    from clusterlab.runs.words import percentage

    wanted = filters(
        cluster=cluster, fabric=fabric, name=name, kind=kind, host=host, since=since, until=until,
        verdict=verdict, collective=collective, dtype=dtype, timing=timing, backend=backend, size=size,
        group=group, link=link,
    )  # fmt: skip
    share = percentage(tolerance, where="--tolerance")
    found, known = asked(
        place(runs, index), lambda i: machines(i, wanted, recent=recent, tolerance=share)
    )
    data = [machine_data(machine, values=values) for machine in found]
    _say(known)
    if as_json:
        typer.echo(json_text(data))
    else:
        for i, machine in enumerate(data):
            _print_machine(machine, every=every, first=not i)
    if not data:
        _say_how_many(0, 0, "rows with a time", known, wanted)
    verdicts = {machine["verdict"] for machine in data}
    if "regression" in verdicts:
        return ExitCode.FINDING
    return ExitCode.OK if verdicts & {"same", "improvement"} else ExitCode.NO_VERDICT


def index_runs(
    runs: Runs = None,
    index: IndexFolder = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Read every run again, whatever is there.")
    ] = False,
) -> int:
    """Bring the index over all runs up to date, or make it again."""
    from clusterlab.runs.history.asking import asked, place

    where = place(runs, index, rebuild=rebuild)
    _, known = asked(where, lambda _: None)
    _say(known)
    entries = known.runs.entries.values()
    damaged = sum(entry.said.get("error") is not None for entry in entries)
    rows = sum(entry.rows for entry in entries)
    said = f", {damaged} of them damaged (runs list --json says why)" if damaged else ""
    typer.echo(
        f"{len(entries)} runs{said}, {rows} rows; {known.read} runs were read; {where.folder}"
    )
    return ExitCode.OK


def _print_machine(machine: dict[str, Any], *, every: bool, first: bool) -> None:
    from clusterlab.report.console.history_trend import (
        BARS,
        PLAIN_BARS,
        SERIES_LAYOUT,
        finding_lines,
        head_line,
        series_cells,
    )

    _print(
        [
            *([] if first else [""]),
            head_line(machine),
            *map("  {}".format, finding_lines(machine)),
            "",
        ]
    )
    series = machine["series"]
    shown = series
    if len(series) > _MOST_SERIES and not every:
        changed = sorted(series, key=lambda one: -abs((one["time_ratio"] or 1.0) - 1.0))
        kept = {id(one) for one in changed[:_MOST_SERIES]}
        shown = [one for one in series if id(one) in kept]
    _print_table(series_cells(shown, bars=BARS if _prints(BARS) else PLAIN_BARS), SERIES_LAYOUT)
    if len(shown) < len(series):
        _print([f"and {len(series) - len(shown)} series that changed less (--all)"])


def _prints(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _print_table(cells: Sequence[Sequence[str]], layout: Sequence[str]) -> None:
    from clusterlab.cli.columns import columns

    _print(columns(cells, layout))


def _print(lines: Sequence[str]) -> None:
    from clusterlab.cli.shown import shown_lines

    typer.echo(shown_lines(lines))


def _json_list(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """A JSON list, row by row: millions of them need not be in memory twice."""
    yield "["
    for i, row in enumerate(rows):
        yield f"{',' if i else ''}\n{json_text(row)}"
    yield "\n]\n"


def _say(index: Index) -> None:
    from clusterlab.cli.shown import shown

    for note in index.notes:
        typer.echo(shown(f"note: {note}"), err=True)


def _say_how_many(given: int, total: int, what: str, index: Index, asked: Filters) -> None:
    from clusterlab.cli.shown import shown
    from clusterlab.report.console.history import count
    from clusterlab.runs.history.hints import hints

    if given < total:
        typer.echo(f"clusterlab: {given} of {total} {what} (--most 0: all)", err=True)
    elif not total:
        runs = len(index.runs.entries)
        typer.echo(f"clusterlab: of {count(runs, 'run')} no {what} fit", err=True)
        for hint in hints(index, asked):
            typer.echo(shown(f"clusterlab: {hint}"), err=True)


def register(app: typer.Typer) -> None:
    """Add these commands to ``clusterlab runs``."""
    app.command("list", epilog=_LIST_EXAMPLE)(list_runs)
    app.command("query", epilog=_QUERY_EXAMPLE)(query)
    app.command("trend", epilog=_TREND_EXAMPLE)(trend)
    app.command("index", epilog=_INDEX_EXAMPLE)(index_runs)
