"""``clusterlab predict score``: how far predictions are from measurements in a CSV file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text

EPILOG = """Examples:

  clusterlab predict score nccl_tests.csv

  clusterlab predict score nccl_tests.csv --by n_ranks,size_band --json

  clusterlab predict score run.csv --rows --fabric mine.yaml --nccl-version 2.27.5 -x NCCL_P2P_LEVEL=PXB

The file has at least the columns system, collective, n_ranks, size_bytes and time_us (or busbw_GBps);
gpu, n_nodes, gpus_per_node, intra_fabric and inter_fabric say what the machines are, nccl_version the
release, algo and proto what ran, health which tables count (healthy).

algo and proto: Tree, Tree (forced), NCCL_ALGO=Tree, LL128, Ring/LL128 (in algo) are predicted as forced, in
any case. A cell with default, observed or per source in it leaves the choice to NCCL, so that the choice is
scored too: Ring (observed). A cell that is not read is named in the notes.

A cell that is no number of its kind (soon, nan, -3) is an error with its line and column. Rows with a time
of 0, below 0.1 us or above an hour, or a busbw above 3600 GB/s are left out, counted and named. Where nothing
is known of a GPU, a link or a network, rows are not predicted and say why; each counts as 100 % too fast.

Exit codes: 0 scored, 2 not readable, no healthy table, or a fabric with too few GPUs for every row, 3 nothing
could be predicted or no row is left (the reason on stderr).
"""
_PROGRESS_ROWS = 1000


def score(
    file: Annotated[
        Path, typer.Argument(help="Measurements, one row a size (CSV); - for standard input.")
    ],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            help="Group by these columns: system, collective, table_id, gpu, n_nodes, n_ranks, "
            "nccl_version, dtype, size_band, intra_fabric, inter_fabric, in_place, algorithm.",
        ),
    ] = "system,collective",
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", help="Predict all rows on this fabric, whatever the file says."),
    ] = None,
    one_latency: Annotated[
        bool,
        typer.Option(
            "--one-latency",
            help="Add to each table's predictions what its smallest rows miss; score the other rows.",
        ),
    ] = False,
    nccl_version: Annotated[
        str | None,
        typer.Option(
            "--nccl-version", help="The release of rows that name none (default: newest)."
        ),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "-x",
            "--env",
            metavar="NAME=VALUE",
            help="A variable of NCCL that all rows ran with; may be repeated. A row's own algo and proto "
            "win.",
        ),
    ] = None,
    timing: Annotated[
        str | None,
        typer.Option(
            "--timing",
            help="How calls were issued: library (nccl-tests; default), graph or eager (torch).",
        ),
    ] = None,
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing", help="How switches choose among equal ways: adaptive, hash or pinned."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            "--calibration",
            help="Predict by this system's own constants (a file of `calibrate`); other systems' rows are "
            "left out.",
        ),
    ] = None,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="Every row too: measured, predicted, error, what limits."),
    ] = False,
    save_fabric: Annotated[
        Path | None,
        typer.Option(
            "--save-fabric",
            help="Write the fabric that the worst row's words make, for `predict --fabric`.",
            callback=output_file,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score predictions against measured rows, NCCL's own model beside them."""
    from clusterlab.cli.output import write_output
    from clusterlab.cli.predict_score_text import score_lines
    from clusterlab.runs.scoring.data import report_data, rows_in_order
    from clusterlab.runs.scoring.score import ScoreOptions, score_file

    options = ScoreOptions(
        file=file,
        by=by,
        fabric=fabric,
        one_latency=one_latency,
        nccl_version=nccl_version,
        variables=tuple(variables or ()),
        timing=timing,
        routing=routing,
        save_fabric=save_fabric is not None,
        calibration=calibration,
    )
    report = score_file(options, progress=_progress)
    if save_fabric is not None and report.saved_fabric is not None:
        write_output(save_fabric, report.saved_fabric, sources=[file])
    if as_json:
        typer.echo(json_text(report_data(report, rows=rows)))
    else:
        for line in score_lines(report, rows_in_order(report) if rows else ()):
            typer.echo(line)
    if report.no_verdict is not None:
        typer.echo(f"clusterlab: {report.no_verdict}", err=True)
        raise typer.Exit(ExitCode.NO_VERDICT)


def _progress(done: int, rows: int) -> None:
    if done % _PROGRESS_ROWS == 0 and rows > _PROGRESS_ROWS:
        print(f"clusterlab: {done} of {rows} points predicted", file=sys.stderr, flush=True)
