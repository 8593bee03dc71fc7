"""``clusterlab resume``: go on with a sweep that was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = """Examples:

  clusterlab resume runs/20261129T221218Z-allreduce_sweep-98300c

  srun --mpi=pmix --ntasks-per-node=8 clusterlab resume RUN
"""


def resume(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON lines instead of the table.")
    ] = False,
    strict_table: Annotated[
        bool, typer.Option("--nccl-tests", help="Print nccl-tests' columns only.")
    ] = False,
) -> int:
    """Measure the points that an interrupted sweep still lacks, into the same run directory."""
    from clusterlab.runs.sweeping.resume import resume as resume_run

    return resume_run(run, as_json=as_json, strict_table=strict_table)


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("resume", epilog=_EXAMPLE)(resume)
