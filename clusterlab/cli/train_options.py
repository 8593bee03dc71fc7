"""Options that ``train`` and ``explain`` share: the model, its mesh and how it is trained."""

from __future__ import annotations

from typing import Annotated

import typer

Strategy = Annotated[str, typer.Argument(help="dp, tp, sp, pp, ep or 3d (tp, pp and dp).")]
Dp = Annotated[int | None, typer.Option("--dp", help="Data parallel ranks.")]
Tp = Annotated[int | None, typer.Option("--tp", help="Tensor parallel ranks.")]
Pp = Annotated[int | None, typer.Option("--pp", help="Pipeline stages' ranks.")]
Ep = Annotated[
    int | None, typer.Option("--ep", help="Ranks that share the experts; part of the dp ones.")
]
SequenceParallel = Annotated[
    str | None,
    typer.Option("--sequence-parallel", help="tp (beside tensor parallelism) or ulysses."),
]
Batch = Annotated[int | None, typer.Option("--batch", help="Sequences of a step, over all ranks.")]
MicroBatches = Annotated[
    int | None, typer.Option("--micro-batches", help="Parts of a rank's batch.")
]
Layers = Annotated[int | None, typer.Option("--layers")]
Hidden = Annotated[int | None, typer.Option("--hidden")]
Heads = Annotated[int | None, typer.Option("--heads")]
Ffn = Annotated[int | None, typer.Option("--ffn", help="Inner width of the MLP.")]
Vocab = Annotated[int | None, typer.Option("--vocab")]
Sequence = Annotated[int | None, typer.Option("--sequence", help="Positions.")]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--per-node",
        help="Ranks of a node: tokens cross to a node once, then go on inside (two levels). "
        "Default: directly to each expert's rank.",
    ),
]
ExpertBackend = Annotated[
    str,
    typer.Option(
        "--expert-backend",
        help="What takes tokens to experts: collectives, or deep_ep where that library is installed.",
    ),
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Experts of a token.")]
DataParallel = Annotated[str, typer.Option("--data-parallel", help="ddp, zero1, zero2 or fsdp.")]
Bucket = Annotated[
    str, typer.Option("--bucket", help="Bytes of gradients that are summed together.")
]
Overlap = Annotated[
    bool, typer.Option("--overlap/--no-overlap", help="Sum gradients beside the backward.")
]
Schedule = Annotated[
    str, typer.Option("--schedule", help="gpipe, 1f1b, interleaved or zero_bubble.")
]
Chunks = Annotated[
    int | None, typer.Option("--chunks", help="Stages of a rank in an interleaved pipeline.")
]
Backend = Annotated[str, typer.Option("--backend", help="auto, gloo or nccl.")]
