"""``clusterlab localise``: what made the messages of finished runs slow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clusterlab.core.jsontext import json_text

_EXAMPLE = """Examples:

  clusterlab localise runs/20261130T101500Z-pairs-1a2b3c

  clusterlab localise PAIRS_RUN RAIL_RUN NODE_RUN --fabric superpod-h100-1su --json

Takes runs of `bench pairs`, of `bench COLLECTIVE --pattern rail|node|nodes:K|halves` and of `hunt`, several
of the same ranks together.

Exit codes: 0 nothing is named, 1 something is, 2 usage, 3 nothing in them can be compared, or rows
are missing, twice or wrong and what there is names nothing.
"""


def localise(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", help="The fabric (default: the one that they were predicted on)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout.")] = False,
) -> int:
    """Name the NIC, cable, switch, rail or host that explains what is slow in RUNS."""
    from clusterlab.cli.shown import shown_lines
    from clusterlab.core.errors import ExitCode, NoVerdictError
    from clusterlab.records.run_dir import open_run
    from clusterlab.runs.hunting.localise import localise_runs
    from clusterlab.runs.hunting.localise_told import localised_json, localised_lines
    from clusterlab.topology.opening import open_fabric

    found = localise_runs(
        [open_run(path) for path in runs], open_fabric(fabric) if fabric else None
    )
    if found is None:
        raise NoVerdictError(
            "nothing here can be compared",
            where=", ".join(map(str, runs)),
            expected="rows of pairs or of groups of ranks, on several hosts",
            fix="clusterlab bench pairs, or bench with --pattern",
        )
    if as_json:
        typer.echo(json_text(localised_json(found)))
    else:
        typer.echo(shown_lines(localised_lines(found)))
    if found.answer.faults:
        return ExitCode.FINDING
    return ExitCode.NO_VERDICT if found.problems else ExitCode.OK


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("localise", epilog=_EXAMPLE)(localise)
