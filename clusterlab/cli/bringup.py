"""``clusterlab bringup``: from process start to the first collective; communicators again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.rank_options import Backend, LocalRanks

_EXAMPLE = """\b
Examples:
  clusterlab bringup -g 4                     # local ranks over gloo, or this machine's GPUs
  srun --mpi=pmix --ntasks-per-node=8 --gpus-per-node=8 clusterlab bringup
  torchrun --nproc-per-node 8 -m clusterlab bringup --json
  srun … clusterlab bringup --rendezvous-file /shared/store.$SLURM_JOB_ID
  clusterlab bringup --repeat-communicators 200   # and look for leaks

Growth is the median slope (Theil-Sen) over all communicators but the first tenth, of the worst rank, in both
halves too. Allowed with each are 64 KiB of GPU and of host memory, 0.05 file descriptors and 0.05 threads.

Exit codes: 0 fine, 1 something grows with each communicator, or a wrong sum, 2 usage, 3 too few
communicators to tell, 4 a rank died or a deadline passed.
"""


def bringup(
    ranks: LocalRanks = None,
    backend: Backend = "auto",
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat-communicators",
            metavar="N",
            min=0,
            max=100_000,
            help="Make, use and destroy a communicator N times and see what grows.",
        ),
    ] = 0,
    file: Annotated[
        Path | None,
        typer.Option(
            "--rendezvous-file",
            metavar="FILE",
            help="Meet in this new file that all ranks share, whatever the launcher offers.",
        ),
    ] = None,
    deadline_s: Annotated[
        float,
        typer.Option(
            "--deadline",
            "-T",
            min=1,
            help="Seconds that each step, and each communicator, may take.",
        ),
    ] = 120.0,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run (default: bringup).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of the table.")] = False,
) -> int:
    """Time from process start to the first collective, phase by phase, the slowest rank of each named."""
    from clusterlab.runs.probing.bringup import BringupOptions, run_bringup

    return run_bringup(
        BringupOptions(
            ranks=ranks,
            backend=backend,
            repeat=repeat,
            file=file,
            deadline_s=deadline_s,
            name=name,
            as_json=as_json,
        )
    )


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("bringup", epilog=_EXAMPLE)(bringup)
