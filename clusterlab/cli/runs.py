"""``clusterlab runs``: the run directories themselves."""

from __future__ import annotations

from typing import Annotated

import typer

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


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="runs")
