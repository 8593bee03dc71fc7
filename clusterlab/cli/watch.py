"""``clusterlab watch``: a run while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = """Examples:

  clusterlab watch runs/20261129T221218Z-allreduce_sweep-98300c

  clusterlab watch RUN --once

  clusterlab watch RUN --wait --json | jq -c '.new[] | select(.verdict == "slow")'

Only reads: the run may be anybody's, on any host that writes to the same file system. Ctrl-C ends the
watching (130), never the run. A run that is dead (its process is gone, or silent for 60 s) is told, not
waited for.

Exit codes: the run's own when it ends (0 fine, 1 a finding or wrong data, 3 no verdict, 4 a rank died or a
deadline passed, 128+n stopped by a signal), 4 when it is dead or never started, 2 not a run directory. With
--once 0 while it runs.
"""


def watch(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait for what is not there yet: the directory, or another attempt after one that died.",
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Print where it stands, and stop.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object on stdout for every change.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", min=0.1, max=3600, help="Seconds between two looks.")
    ] = 0.5,
) -> int:
    """Watch a run: how far it is, busbw beside predicted, the slowest rank, how it ends."""
    from clusterlab.runs.watching.watch import WatchOptions, watch

    return watch(WatchOptions(run, wait=wait, once=once, as_json=as_json, every_s=every))


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("watch", epilog=_EXAMPLE)(watch)
