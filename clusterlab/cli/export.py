"""``clusterlab export``: what other tools read of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli import export_prom
from clusterlab.cli.output import output_file, output_folder
from clusterlab.cli.shown import shown

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
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Default: RUN/trace.json.", callback=output_file
        ),
    ] = None,
) -> None:
    """Write a training step of all ranks as a Chrome trace: open it in ui.perfetto.dev."""
    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.connected.trace import write_trace

    opened = open_run(run)
    target = out or opened.path / "trace.json"
    number = write_trace(opened, target, step)
    typer.echo(shown(f"clusterlab: step {number} of {opened.info.run_id}: {target}"))


@app.command(
    "tensorboard",
    epilog="Example: clusterlab export tensorboard RUN --out tb && tensorboard --logdir tb\n\n"
    "Steps of a training: loss, times, exposed communication. Of a sweep bandwidth by size: a step is a size "
    "in bytes. Needs pip install 'clusterlab[tensorboard]'.",
)
def tensorboard(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="The run becomes a folder in it.",
            callback=output_folder,
        ),
    ],
) -> None:
    """Write a run's steps, or its bandwidth by size, as TensorBoard scalars."""
    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.connected.tensorboard import write_tensorboard

    folder, count = write_tensorboard(open_run(run), out)
    typer.echo(shown(f"clusterlab: {count} values: {folder}"))


@app.command(
    "wandb",
    epilog="Example: clusterlab export wandb RUN && wandb sync RUN/wandb/offline-run-*\n\n"
    "Nothing is sent without --online. Needs pip install 'clusterlab[wandb]'.",
)
def wandb(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            help="Where its folder wandb/ goes (default: RUN).",
            callback=output_folder,
        ),
    ] = None,
    project: Annotated[str, typer.Option("--project", help="Of Weights & Biases.")] = "clusterlab",
    online: Annotated[
        bool, typer.Option("--online", help="Send it, as the user who is logged in.")
    ] = False,
) -> None:
    """Write a run's steps, or its bandwidth by size, as a run of Weights & Biases, offline."""
    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.connected.wandb_export import write_wandb

    opened = open_run(run)
    folder, count = write_wandb(opened, out or opened.path, project=project, online=online)
    sync = "" if online else f"; wandb sync {folder}"
    typer.echo(shown(f"clusterlab: {count} values: {folder}{sync}"))


@app.command(
    "zoom",
    epilog="Example: clusterlab export zoom RUN --out curves.html\n\n"
    "One file of 5 MB that draws by script and loads nothing. To read and to attach to a ticket, report.html "
    "is smaller. Needs pip install 'clusterlab[plotly]'.",
)
def zoom(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Default: RUN/zoom.html.", callback=output_file
        ),
    ] = None,
) -> None:
    """Write a run's curves, or its steps, as a page to zoom into."""
    from clusterlab.cli.output import write_output
    from clusterlab.core.errors import UsageError
    from clusterlab.records.run_dir import open_run
    from clusterlab.report.data import load
    from clusterlab.report.page.zoom import zoom_page

    opened = open_run(run)
    page = zoom_page(load(opened))
    if not page:
        raise UsageError(
            "holds neither curves of all ranks nor steps", where=str(opened.path),
            fix="groups and pairs of ranks, overlaps and soaks are in report.html",
        )  # fmt: skip
    write_output(out or opened.path / "zoom.html", page)


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="export")
