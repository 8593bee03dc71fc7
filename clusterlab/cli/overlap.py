"""``clusterlab overlap``: a collective under compute, and two collectives at once."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.cli.rank_options import LocalRanks

_EXAMPLE = """Examples:

  clusterlab overlap all_reduce --with compute -b 1M -e 64M -f 4 -g 2

  clusterlab overlap all_gather --with reduce_scatter,compute -b 16M --max-ctas 8

  torchrun --nproc-per-node 8 -m clusterlab overlap all_reduce --with compute -b 64M -d bfloat16

Exit codes: 0 fine, 1 wrong data or a full disk, 2 usage, 4 a rank died or a deadline passed, 128+n signal n.
"""


def overlap(
    collective: Annotated[
        str, typer.Argument(help="all_reduce, all_gather, …, several with commas, or all.")
    ],
    beside: Annotated[
        str,
        typer.Option("--with", help="compute, a collective of the same size, or several of these."),
    ] = "compute",
    begin: Annotated[str, typer.Option("-b", "--minbytes", help="Smallest size.")] = "1M",
    end: Annotated[
        str | None, typer.Option("-e", "--maxbytes", help="Largest size (default: the smallest).")
    ] = None,
    factor: Annotated[
        float, typer.Option("-f", "--stepfactor", help="Multiply sizes by this.")
    ] = 4.0,
    rounds: Annotated[
        int, typer.Option("-n", "--rounds", min=1, max=10_000, help="Rounds of each size.")
    ] = 30,
    check: Annotated[
        int, typer.Option("-c", "--check", min=0, max=1, help="Check both sides' data (1) or not.")
    ] = 1,
    op: Annotated[str, typer.Option("-o", "--op", help="sum, prod, min, max or avg.")] = "sum",
    dtype: Annotated[str, typer.Option("-d", "--datatype", help="One dtype.")] = "float",
    side: Annotated[
        int | None,
        typer.Option("--matmul", help="Side of the matrices (default: by the collective's time)."),
    ] = None,
    max_ctas: Annotated[
        int | None,
        typer.Option(
            "--max-ctas", help="NCCL: thread blocks (SMs) that a collective may take at most."
        ),
    ] = None,
    ranks: LocalRanks = None,
    backend: Annotated[str, typer.Option("--backend", help="auto, gloo or nccl.")] = "auto",
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", envvar="CLUSTERLAB_FABRIC", help="Predict on this design."),
    ] = None,
    deadline_s: Annotated[
        float, typer.Option("--deadline", "-T", help="Seconds one size may take.")
    ] = 300.0,
    name: Annotated[str | None, typer.Option("--name", help="Name of the run.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line per size on stdout.")
    ] = False,
) -> int:
    """Measure what a collective costs while compute or another collective runs at the same time."""
    from clusterlab.runs.probing.overlap import resolve_overlap, run_overlap
    from clusterlab.runs.sweeping.points import points_typed

    config = resolve_overlap(
        points_typed(collective, begin=begin, end=end, factor=factor, dtype=dtype, op=op),
        beside,
        rounds=rounds,
        check=bool(check),
        backend=backend,
        fabric=fabric,
        deadline_s=deadline_s,
        side=side,
        max_ctas=max_ctas,
    )
    return run_overlap(config, ranks=ranks, name=name, as_json=as_json)


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("overlap", epilog=_EXAMPLE)(overlap)
