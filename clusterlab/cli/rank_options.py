"""Options of every command that starts ranks: how many of them, and what they speak."""

from __future__ import annotations

from typing import Annotated

import typer

LocalRanks = Annotated[
    int | None,
    typer.Option("-g", "--ranks", "--ngpus", help="Ranks to start here (default: the GPUs, or 4)."),
]
Backend = Annotated[
    str, typer.Option("--backend", help="auto (nccl with GPUs, else gloo), gloo or nccl.")
]
