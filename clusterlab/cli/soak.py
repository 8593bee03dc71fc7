"""``clusterlab soak``: the same collectives for hours, and whether they drift."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.cli.rank_options import LocalRanks

_EXAMPLE = """Examples:

  clusterlab soak all_reduce --for 2h -b 64M

  clusterlab soak all_reduce,all_gather --for 15m -b 1M -e 64M -f 8 -g 2 --tolerance 0.05

Ctrl-C ends it early, with its report. `clusterlab report RUN` shows it again.

Exit codes: 0 steady, 1 changed or wrong data, 2 usage, 3 too short or too noisy to say, 4 a rank died.
"""


def soak(
    collective: Annotated[
        str, typer.Argument(help="all_reduce, all_gather, …, several with commas, or all.")
    ],
    duration: Annotated[str, typer.Option("--for", help="How long: 90s, 15m, 1h30m, 2h.")] = "10m",
    begin: Annotated[str, typer.Option("-b", "--minbytes", help="Smallest size.")] = "64M",
    end: Annotated[
        str | None, typer.Option("-e", "--maxbytes", help="Largest size (default: the smallest).")
    ] = None,
    factor: Annotated[
        float, typer.Option("-f", "--stepfactor", help="Multiply sizes by this.")
    ] = 8.0,
    pass_text: Annotated[
        str, typer.Option("--pass", help="How long calls are timed in a pass of all points.")
    ] = "1s",
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="A change by less does not matter (0.03: 3 %).")
    ] = 0.03,
    check: Annotated[
        int, typer.Option("-c", "--check", min=0, max=1, help="Check the data of every pass (1).")
    ] = 1,
    op: Annotated[str, typer.Option("-o", "--op", help="sum, prod, min, max or avg.")] = "sum",
    dtype: Annotated[str, typer.Option("-d", "--datatype", help="One dtype.")] = "float",
    ranks: LocalRanks = None,
    backend: Annotated[str, typer.Option("--backend", help="auto, gloo or nccl.")] = "auto",
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", envvar="CLUSTERLAB_FABRIC", help="Predict on this design."),
    ] = None,
    deadline_s: Annotated[
        float, typer.Option("--deadline", "-T", help="Seconds one point may take.")
    ] = 300.0,
    corrupt: Annotated[
        str | None,
        typer.Option("--corrupt", help="RANK:INDEX: spoil one received element of every pass."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="What the passes say as JSON on stdout.")
    ] = False,
) -> int:
    """Repeat collectives for a time: do they drift, step or swing? Wrong data ends it at once."""
    from clusterlab.runs.probing.soak import resolve_soak, run_soak
    from clusterlab.runs.sweeping.bench import parse_corrupt
    from clusterlab.runs.sweeping.points import points_typed

    config = resolve_soak(
        points_typed(collective, begin=begin, end=end, factor=factor, dtype=dtype, op=op),
        duration=duration,
        pass_text=pass_text,
        tolerance=tolerance,
        check=bool(check),
        backend=backend,
        fabric=fabric,
        deadline_s=deadline_s,
        corrupt=parse_corrupt(corrupt),
    )
    return run_soak(config, ranks=ranks, name=name, as_json=as_json)


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("soak", epilog=_EXAMPLE)(soak)
