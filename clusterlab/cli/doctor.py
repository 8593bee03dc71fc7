"""``clusterlab doctor``: what every rank really got, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer

_EXAMPLE = """Examples:

  srun --mpi=pmix --ntasks-per-node=8 --gpus-per-node=8 clusterlab doctor

  torchrun --nproc-per-node 8 -m clusterlab doctor --json

  clusterlab doctor                                        this machine, one process

Exit codes: 0 nothing of severity error, 1 a finding of severity error or above, 4 ranks are missing.
"""


def doctor(
    deadline_s: Annotated[
        float,
        typer.Option("--deadline", "-T", min=1, help="Seconds that ranks wait for each other."),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
    environment: Annotated[
        bool,
        typer.Option("--environment", help="Also print the variables that decide, rank by rank."),
    ] = False,
) -> int:
    """Show host, GPU, NUMA node, cores and NICs of every rank, and what is wrong: no CUDA, no MPI."""
    from clusterlab.runs.doctor import DoctorOptions, run_doctor

    return run_doctor(DoctorOptions(deadline_s, as_json, environment))


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("doctor", epilog=_EXAMPLE)(doctor)
