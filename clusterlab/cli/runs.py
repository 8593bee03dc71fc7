"""``clusterlab runs``: the run directories themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.core.errors import ExitCode

app = typer.Typer(help="Run directories.", no_args_is_help=True)


@app.command("create", epilog='Example: clusterlab runs create --name sweep --job "$SLURM_JOB_ID"')
def create(
    name: Annotated[str, typer.Option("--name", help="Name of the run.")],
    job: Annotated[
        str | None,
        typer.Option("--job", help="Batch job: the directory this job made before is used again."),
    ] = None,
) -> None:
    """Make a run directory before the ranks start, and print its path (for CLUSTERLAB_RUN_DIR)."""
    from clusterlab.runs.directory import run_directory

    typer.echo(run_directory(name, job=job).path)


@app.command("ended", epilog="Example: clusterlab runs ended RUN && echo complete")
def ended(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
) -> int:
    """Say how a run's latest attempt ended, and exit with its code; 4 when it did not end."""
    from clusterlab.records.run_dir import open_run

    opened = open_run(run)
    attempts = opened.info.attempts
    if not attempts or attempts[-1].exit_code is None:
        what = "no attempt was started" if not attempts else f"attempt {len(attempts)} did not end"
        typer.echo(f"{opened.path}: {what}")
        return ExitCode.DEADLINE
    typer.echo(f"{opened.path}: attempt {len(attempts)} ended with {attempts[-1].exit_code}")
    return attempts[-1].exit_code


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="runs")
