"""``clusterlab export``: what other tools read of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli import export_prom

app = typer.Typer(help="Files for other tools from a run.", no_args_is_help=True)


app.command("prom", epilog=export_prom.EXAMPLE)(export_prom.prom)


@app.command("trace", epilog="Example: clusterlab export trace RUN --step 12 -o step.json")
def trace(
    run: Annotated[
        Path, typer.Argument(help="A training run's directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    step: Annotated[
        int | None, typer.Option("--step", help="Which step (default: the last of all ranks).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Default: RUN/trace.json.")
    ] = None,
) -> None:
    """Write a training step of all ranks as a Chrome trace: open it in ui.perfetto.dev."""
    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.export import write_trace

    opened = open_run(run)
    target = out or opened.path / "trace.json"
    number = write_trace(opened, target, step)
    typer.echo(f"clusterlab: step {number} of {opened.info.run_id}: {target}")


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="export")
