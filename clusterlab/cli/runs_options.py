"""Options that the commands over many runs share: whose history, and what of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[
    Path | None,
    typer.Option("--runs", metavar="DIR", help="The folder of runs (default $CLUSTERLAB_RUNS)."),
]
IndexFolder = Annotated[
    Path | None,
    typer.Option("--index", metavar="DIR", help="Keep the index there, not in the folder of runs."),
]
Cluster = Annotated[
    str, typer.Option("--cluster", help="Slurm's name of it; * and ? in all names.")
]
Fabric = Annotated[str, typer.Option("--fabric", help="The design that was predicted on.")]
Name = Annotated[str, typer.Option("--name", help="Part of the run's name, or its directory.")]
Kind = Annotated[
    str, typer.Option("--kind", help="sweep, pairs, groups, overlap, soak, training, …")
]
Host = Annotated[str, typer.Option("--host", help="A node that took part: n07, 'n0*'.")]
Since = Annotated[str, typer.Option("--since", help="2026-11-30, 2026-11-30T12:00 (UTC), or 7d.")]
Until = Annotated[str, typer.Option("--until", help="As --since; a day counts whole.")]
Collective = Annotated[str, typer.Option("--collective", help="all_reduce,send; commas between.")]
Dtype = Annotated[str, typer.Option("--dtype", "-d", help="Element types.")]
Timing = Annotated[str, typer.Option("--timing", help="eager, graph, direct.")]
Backend = Annotated[str, typer.Option("--backend", help="gloo, nccl.")]
Size = Annotated[str, typer.Option("--size", help="1M, 64K:1G, or small, mid, large.")]
Group = Annotated[
    str, typer.Option("--group", help="Ranks as 0-7 or 2,3, or their name: 'rail 3', 'host n07'.")
]
Link = Annotated[
    str,
    typer.Option("--link", help="A,B: pairs of ranks on two hosts; else what a finding names."),
]
RunVerdict = Annotated[str, typer.Option("--verdict", help="The run's: pass, slow, invalid, …")]
RowVerdict = Annotated[str, typer.Option("--verdict", help="The row's: pass, slow, invalid, …")]
