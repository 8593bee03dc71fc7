"""``clusterlab report``: measured beside predicted, on the terminal and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli.output import output_file, output_folder
from clusterlab.cli.report_data import check_names, give_csv, give_json, give_summary
from clusterlab.core.errors import ExitCode
from clusterlab.core.findings import Verdict

if TYPE_CHECKING:
    from clusterlab.records.run_dir import RunDir
    from clusterlab.report.data import ReportData
    from clusterlab.report.page.beside import Beside

_EXAMPLE = """Examples:

  clusterlab report runs/20261129T221218Z-allreduce_sweep-98300c

  clusterlab report runs/*-sweep-* -o pages

  clusterlab report RUN --summary | gh issue create --title "slow all_reduce" --body-file -

  clusterlab report RUN --json | jq .verdict

  clusterlab report RUN --parquet rows.parquet

The page (report.html) loads nothing and runs no script; summary.md beside it is for tickets.

Exit codes: 0 rendered, 1 a run holds wrong data, 2 not a run directory, 3 nothing for --csv.
With --check the verdict decides.
"""


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Run directories, or their names under $CLUSTERLAB_RUNS."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON on stdout, no HTML; of several runs a list.")
    ] = False,
    as_csv: Annotated[
        bool,
        typer.Option(
            "--csv",
            help="The rows, else steps or passes, as CSV on stdout, no HTML; several: with run_id.",
        ),
    ] = False,
    as_summary: Annotated[
        bool, typer.Option("--summary", help="summary.md on stdout, no HTML: for a ticket.")
    ] = False,
    parquet: Annotated[
        Path | None,
        typer.Option(
            "--parquet",
            metavar="FILE",
            help="Write the rows of all runs as Parquet.",
            callback=output_file,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Write <run>.html and <run>.md (or .csv, .json) here, not into the runs or to stdout.",
            callback=output_folder,
        ),
    ] = None,
    tests_json: Annotated[
        Path | None,
        typer.Option(
            "--nccl-tests-json",
            metavar="FILE",
            help="Write the rows as nccl-tests' -J does; one file for each collective and way of calling.",
            callback=output_file,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit by the verdict: 0 pass, 1 slow, fast or invalid, 3 none."
        ),
    ] = False,
    html: Annotated[
        bool,
        typer.Option("--html/--no-html", help="Write report.html and summary.md into the run."),
    ] = True,
) -> int:
    """Print runs beside their predictions and write their self-contained pages."""
    import gc

    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.report_page import check_folder, gathered, paths_of

    # Rows are many, and none of them is garbage before the process ends.
    gc.disable()
    _check_words(runs, as_json=as_json, as_csv=as_csv, as_summary=as_summary, tests_json=tests_json)
    opened = [open_run(run) for run in runs]
    if output is not None:
        check_names(opened, output)
        check_folder(output)
    found = [_load(run) for run in opened]
    if tests_json is not None:
        _write_tests_json(opened[0], tests_json)
    if parquet is not None:
        _write_parquet(parquet, found)
    if as_csv:
        given = give_csv(found, output)
        return _code(found, [gathered(data) for data in found] if check else None) or given
    besides = [gathered(data) for data in found]
    if as_json:
        give_json(found, besides, output)
    elif as_summary:
        give_summary(found, besides, output)
    else:
        for number, (data, beside) in enumerate(zip(found, besides, strict=True)):
            _print_one(data, beside, first=number == 0)
            if html:
                _write_pages(data, beside, *paths_of(data.run, output))
    return _code(found, besides if check else None)


def _check_words(
    runs: Sequence[Path], *, as_json: bool, as_csv: bool, as_summary: bool, tests_json: Path | None
) -> None:
    from clusterlab.core.errors import UsageError

    if as_json + as_csv + as_summary > 1:
        raise UsageError(
            "one stdout", where="--json, --csv, --summary", expected="one of these at a time"
        )
    if tests_json is not None and len(runs) > 1:
        raise UsageError(
            f"{len(runs)} runs", where="--nccl-tests-json", expected="one run: the file is of one"
        )


def _load(run: RunDir) -> ReportData:
    from clusterlab.report.data import load

    return load(run)


def _print_one(data: ReportData, beside: Beside, *, first: bool) -> None:
    from clusterlab.report.console.terminal import print_run
    from clusterlab.runs.probing.bringup_report import is_bringup, report_again

    if not first:
        typer.echo("")
    if is_bringup(data.run):
        report_again(data.run, as_json=False)
    else:
        print_run(data, headline=beside.headline)


def _write_pages(data: ReportData, beside: Beside, page: Path, summary: Path) -> None:
    from clusterlab.cli.shown import shown
    from clusterlab.runs.report_page import write_both

    write_both(data, page, summary, beside=beside)
    typer.echo(shown(f"report: {page}"))
    typer.echo(shown(f"summary: {summary}"))


def _write_parquet(path: Path, found: Sequence[ReportData]) -> None:
    from clusterlab.cli.shown import shown
    from clusterlab.report.files.parquet import write_parquet

    rows = write_parquet(path, [(data.run.info.run_id, data.rows) for data in found])
    typer.echo(shown(f"clusterlab: {rows} rows: {path}"), err=True)


def _write_tests_json(run: RunDir, path: Path) -> None:
    from clusterlab.cli.shown import shown
    from clusterlab.core.errors import UsageError
    from clusterlab.runs.connected.nccl_tests_files import write_tests_json

    written = write_tests_json(run, path)
    if not written:
        raise UsageError(
            "holds no row of all its ranks", where=str(run.path), expected="a run that measured"
        )
    for one in written:
        typer.echo(shown(f"clusterlab: {one}"), err=True)


def _code(found: Sequence[ReportData], besides: Sequence[Beside] | None) -> ExitCode:
    """The gravest of all runs'; by the verdict, where ``besides`` are given."""
    from clusterlab.runs.report_page import found_fault, verdict_of

    if any(found_fault(data) for data in found):
        return ExitCode.FINDING
    if besides is None:
        return ExitCode.OK
    codes = [_code_of(verdict_of(*both)) for both in zip(found, besides, strict=True)]
    order = (ExitCode.FINDING, ExitCode.NO_VERDICT, ExitCode.OK)
    return min(codes, key=order.index)


def _code_of(verdict: Verdict) -> ExitCode:
    if verdict == Verdict.PASS:
        return ExitCode.OK
    return ExitCode.NO_VERDICT if verdict == Verdict.NO_VERDICT else ExitCode.FINDING


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("report", epilog=_EXAMPLE)(report)
