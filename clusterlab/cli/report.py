"""``clusterlab report``: measured beside predicted, on the terminal and as one HTML file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.core.errors import ExitCode
from clusterlab.core.findings import Verdict

if TYPE_CHECKING:
    from clusterlab.records.run_dir import RunDir

_EXAMPLE = """Examples:

  clusterlab report runs/20261129T221218Z-allreduce_sweep-98300c

  clusterlab report RUN --json | jq .verdict

  clusterlab report RUN --nccl-tests-json all_reduce.json

Exit codes: 0 rendered, 1 the run holds wrong data, 2 not a run directory. With --check the verdict decides.
"""


def report(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="The same as JSON on stdout, no HTML.")
    ] = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="The rows as CSV on stdout, no HTML.")
    ] = False,
    tests_json: Annotated[
        Path | None,
        typer.Option(
            "--nccl-tests-json",
            metavar="FILE",
            help="Write the rows as nccl-tests' -J does; one file for each collective and way of calling.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit by the verdict: 0 pass, 1 slow, fast or invalid, 3 none."
        ),
    ] = False,
    html: Annotated[
        bool, typer.Option("--html/--no-html", help="Write report.html into the run directory.")
    ] = True,
) -> int:
    """Print a run beside its predictions and write its self-contained report.html."""
    from clusterlab.records.run_dir import open_run
    from clusterlab.report.data import load
    from clusterlab.report.terminal import print_run, run_data
    from clusterlab.runs.bringup_report import is_bringup, report_again

    opened = open_run(run)
    if is_bringup(opened):
        return report_again(opened, as_json=as_json)
    data = load(opened)
    if tests_json is not None:
        _write_tests_json(opened, tests_json)
    if as_json:
        typer.echo(json.dumps(run_data(data)))
    elif as_csv:
        from clusterlab.report.embed import rows_csv

        sys.stdout.write(rows_csv(data.rows))
    else:
        print_run(data)
        if html:
            from clusterlab.runs.report_page import write_page

            typer.echo(f"report: {write_page(opened)}")
    if check:
        return _code_of(data.judged.verdict)
    return ExitCode.FINDING if data.run_verdict.wrong else ExitCode.OK


def _write_tests_json(run: RunDir, path: Path) -> None:
    from clusterlab.core.errors import UsageError
    from clusterlab.runs.nccl_tests_files import check_target, write_tests_json

    check_target(path)
    written = write_tests_json(run, path)
    if not written:
        raise UsageError(
            "holds no row of all its ranks", where=str(run.path), expected="a run that measured"
        )
    for one in written:
        typer.echo(f"clusterlab: {one}", err=True)


def _code_of(verdict: Verdict) -> ExitCode:
    if verdict == Verdict.PASS:
        return ExitCode.OK
    return ExitCode.NO_VERDICT if verdict == Verdict.NO_VERDICT else ExitCode.FINDING


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("report", epilog=_EXAMPLE)(report)
