"""``clusterlab jobs`` and ``clusterlab path``: the job files, and where shipped files lie."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab import __version__
from clusterlab.cli.output import output_folder
from clusterlab.core.errors import UsageError
from clusterlab.core.shipped import shipped
from clusterlab.core.suggest import unknown

_FOLDERS = ("topologies", "jobs", "slurm", "dashboards")

app = typer.Typer(help="The sbatch files people submit.", no_args_is_help=True)


@app.command("render", epilog="Example: clusterlab jobs render --site site.toml --out jobs/")
def render(
    site: Annotated[
        Path | None, typer.Option(help="site.toml with your cluster's partition, account, …")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write to (default: the shipped jobs/).", callback=output_folder
        ),
    ] = None,
) -> None:
    """Write every job file, for this site's Slurm where a site.toml is given."""
    from clusterlab.launch.jobscript import JOBS, render_job
    from clusterlab.launch.site import Site, load_site

    folder = out or shipped("jobs")
    where = load_site(site) if site else Site()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for job in JOBS:
            path = folder / f"{job.name}.sbatch"
            path.write_text(render_job(job, where, __version__), encoding="utf-8")
            path.chmod(0o755)
            typer.echo(path)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", where=str(folder), expected="a folder"
        ) from None


@app.command("list", epilog="Example: clusterlab jobs list")
def list_jobs() -> None:
    """Print the path of every shipped job file."""
    for path in sorted(shipped("jobs").glob("*.sbatch")):
        typer.echo(path)


def path(
    folder: Annotated[str, typer.Argument(help="One of: " + ", ".join(_FOLDERS))],
) -> None:
    """Print where a shipped folder lies, for scripts: `bash "$(clusterlab path jobs)"/….sbatch`."""
    if folder not in _FOLDERS:
        raise unknown("folder", folder, _FOLDERS)
    typer.echo(shipped(folder))


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="jobs")
    root.command("path", epilog="Example: clusterlab path jobs")(path)
