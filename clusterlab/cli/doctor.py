"""``clusterlab doctor``: what every rank really got, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.output import output_folder

_EXAMPLE = """\b
Examples:
  srun --mpi=pmix --ntasks-per-node=8 --gpus-per-node=8 clusterlab doctor
  torchrun --nproc-per-node 8 -m clusterlab doctor --json
  clusterlab doctor                           # this machine, one process
  srun --mpi=pmix … clusterlab doctor --bundle seen/   # save what was seen
  clusterlab doctor seen/                     # what was saved; or a record
  clusterlab doctor --log slurm-4711.out      # an error log; - is stdin

Exit codes: 0 nothing of severity error, 1 a finding of severity error or above, 2 input that cannot be read,
4 ranks are missing.
"""


def doctor(
    saved: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE_OR_DIR]", help="A saved bundle or record to diagnose instead."
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Classify an error log instead; - reads stdin."),
    ] = None,
    deadline_s: Annotated[
        float,
        typer.Option("--deadline", "-T", min=1, help="Seconds that ranks wait for each other."),
    ] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment", help="Also print the variables that decide, with their ranks."
        ),
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Save what was seen, to be read again: clusterlab doctor DIR.",
            callback=output_folder,
        ),
    ] = None,
) -> int:
    """Show host, GPU, NUMA node, cores and NICs of every rank, and what is wrong: no CUDA, no MPI."""
    if saved is not None or log is not None:
        from clusterlab.runs.diagnosing.offline_doctor import run_offline

        return run_offline(saved, log, as_json=as_json)
    from clusterlab.runs.diagnosing.doctor import DoctorOptions, run_doctor

    return run_doctor(DoctorOptions(deadline_s, as_json, environment, bundle))


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("doctor", epilog=_EXAMPLE)(doctor)
