"""``clusterlab export prom``: runs as a node exporter's textfile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clusterlab.core.errors import ExitCode

EXAMPLE = """Examples:

  clusterlab export prom RUN

  clusterlab export prom --last 50 --out /var/lib/prometheus/node-exporter

  clusterlab export prom runs/2026* --cluster alpha --out /var/lib/prometheus/node-exporter/alpha.prom

Of several runs the latest counts for each set of labels; how many of the latest in a row were slow is counted
over all of them, so give a few. The file is replaced at once and readable by all. One file for each cluster:
two with the same series are refused by node exporter. dashboards/README.md wires it to Prometheus, Grafana.

Exit codes: 0 written (slow runs and wrong data are in the metrics), 2 a run could not be read; the others are
written.
"""


def prom(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN]...", help="Run directories, or their names under $CLUSTERLAB_RUNS."
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, metavar="N", help="The N youngest runs of $CLUSTERLAB_RUNS."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE|DIR",
            help="A .prom file, or the textfile folder (DIR/clusterlab.prom). Default: stdout.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", help="The label; default: Slurm's name of it, else 'default'."),
    ] = None,
    openmetrics: Annotated[
        bool,
        typer.Option("--openmetrics", help="OpenMetrics instead: not for node exporter."),
    ] = False,
) -> int:
    """Write runs as metrics: measured and predicted bandwidth, verdicts, wrong data, step times, ages."""
    from clusterlab.core.errors import UsageError
    from clusterlab.runs.connected.prom import (
        latest_runs,
        read_series,
        snapshot,
        target_of,
        text_of,
        write_prom,
    )

    if bool(runs) == (last is not None):
        raise UsageError("name runs, or give --last N", where="export prom", fix="not both")
    target = None if out is None else target_of(out, openmetrics=openmetrics)
    paths = latest_runs(last) if last is not None else list(runs or ())
    read, refused = read_series(paths, cluster=cluster)
    if not read:
        raise (
            refused[0]
            if refused
            else UsageError(
                "no run was started yet",
                where=", ".join(map(str, paths))[:200],
                fix="wait for its ranks",
            )
        )
    found = snapshot(read)
    text = text_of(found, openmetrics=openmetrics)
    if target is None:
        sys.stdout.write(text.decode())
        sys.stdout.flush()
    else:
        write_prom(target, text)
    _say(f"{len(read)} runs, the latest of {found.runs} kinds: {len(found.samples)} series", target)
    if found.left_out:
        _say(
            f"{found.left_out} of {found.left_out + found.points} points left out to keep the number of "
            "series (clusterlab_export_left_out_points): wrong and slow ones were kept, sizes thinned",
            None,
        )
    for error in refused:
        _say(f"left out: {error}", None)
    return ExitCode.USAGE if refused else ExitCode.OK


def _say(text: str, target: Path | None) -> None:
    from clusterlab.cli.shown import shown

    typer.echo(f"clusterlab: {shown(text)}{f': {shown(str(target))}' if target else ''}", err=True)
