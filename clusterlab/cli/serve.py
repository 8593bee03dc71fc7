"""``clusterlab serve``: the pages of runs in a browser, while they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLE = """Examples:

  clusterlab serve

  clusterlab serve /shared/runs --port 8765

  ssh -L 8765:127.0.0.1:8765 LOGIN_NODE   # elsewhere, then open the printed address there

The list of runs, each run's report, two runs compared, rows as CSV, JSON and JSON lines. Pages of runs that
are being written update themselves. It listens on loopback only; the address that it prints on stdout holds
a token, new with every start, without which nothing is answered. It only reads.

Exit codes: 128+n ended by a signal (130: Ctrl-C), 2 no folder of runs, a port that is taken, another address.
"""


def serve(
    root: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUNS_DIR]", help="The folder of runs (default: $CLUSTERLAB_RUNS, else runs)."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Default: one that is free.")
    ] = 0,
    host: Annotated[
        str, typer.Option("--host", help="127.0.0.1, ::1 or localhost; nothing else.")
    ] = "127.0.0.1",
) -> int:
    """Show the runs of a folder on loopback, behind a token, updating as rows arrive."""
    from clusterlab.records.run_dir import runs_root
    from clusterlab.runs.serving.serve import ServeOptions, serve

    return serve(ServeOptions(root or runs_root(), host, port))


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("serve", epilog=_EXAMPLE)(serve)
