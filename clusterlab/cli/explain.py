"""``clusterlab explain``: what a parallel training step sends, computes and holds, before any of it runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

_EXAMPLE = """Examples:

  clusterlab explain tp --layers 4 --tp 2            what tensor parallelism sends, with real sizes

  clusterlab explain pp --pp 4 --micro-batches 8 --schedule zero_bubble

  clusterlab explain tp --tp 8 --dp 127 --what-if superpod-h100-4su --hidden 4096 --layers 32
      the same step on 1,016 GPUs, predicted

A step's parts are compute (by --compute, else by figures of the fabric's GPU), communication that nothing
hides, and the pipeline's bubble. `clusterlab train` runs the same step and counts the same calls.

Exit codes: 0 explained, 2 sizes or ranks that do not fit, with the nearest that do.
"""


def explain(
    strategy: Annotated[str, typer.Argument(help="dp, tp, sp, pp, ep or 3d (tp, pp and dp).")],
    ranks: Annotated[
        int | None,
        typer.Option("-g", "--ranks", help="Ranks (default: the mesh's; 4, or 8 for 3d)."),
    ] = None,
    dp: Annotated[int | None, typer.Option("--dp", help="Data parallel ranks.")] = None,
    tp: Annotated[int | None, typer.Option("--tp", help="Tensor parallel ranks.")] = None,
    pp: Annotated[int | None, typer.Option("--pp", help="Pipeline stages' ranks.")] = None,
    ep: Annotated[
        int | None, typer.Option("--ep", help="Ranks that share the experts; part of the dp ones.")
    ] = None,
    sequence_parallel: Annotated[
        str | None,
        typer.Option("--sequence-parallel", help="tp (beside tensor parallelism) or ulysses."),
    ] = None,
    per_node: Annotated[
        int | None, typer.Option("--per-node", help="Expert parallel ranks of a node.")
    ] = None,
    layers: Annotated[int | None, typer.Option("--layers")] = None,
    hidden: Annotated[int | None, typer.Option("--hidden")] = None,
    heads: Annotated[int | None, typer.Option("--heads")] = None,
    ffn: Annotated[int | None, typer.Option("--ffn", help="Inner width of the MLP.")] = None,
    vocab: Annotated[int | None, typer.Option("--vocab")] = None,
    sequence: Annotated[int | None, typer.Option("--sequence", help="Positions.")] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="Of every block.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Experts of a token.")] = None,
    capacity: Annotated[
        float | None, typer.Option("--capacity", help="Times its share that an expert takes.")
    ] = None,
    workload: Annotated[
        str, typer.Option("--workload", help="Who chooses experts, as in `train`.")
    ] = "learned",
    batch: Annotated[
        int | None, typer.Option("--batch", help="Sequences of a step, over all ranks.")
    ] = None,
    micro_batches: Annotated[
        int | None, typer.Option("--micro-batches", help="Parts of a rank's batch.")
    ] = None,
    data_parallel: Annotated[
        str, typer.Option("--data-parallel", help="ddp, zero1, zero2 or fsdp.")
    ] = "ddp",
    bucket: Annotated[
        str, typer.Option("--bucket", help="Bytes of gradients that are summed together.")
    ] = "1M",
    overlap: Annotated[
        bool, typer.Option("--overlap/--no-overlap", help="Sum gradients beside the backward.")
    ] = True,
    schedule: Annotated[
        str, typer.Option("--schedule", help="gpipe, 1f1b, interleaved or zero_bubble.")
    ] = "1f1b",
    chunks: Annotated[
        int | None, typer.Option("--chunks", help="Stages of a rank in an interleaved pipeline.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("-d", "--dtype", help="float64, float32 or bfloat16 (default for GPUs)."),
    ] = None,
    rank: Annotated[
        int | None, typer.Option("--rank", help="Whose calls are listed (default: 0).")
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            "--what-if",
            metavar="FABRIC",
            help="Predict the step there: a name of `topo list`, or a file.",
        ),
    ] = None,
    compute: Annotated[
        str | None,
        typer.Option(
            "--compute",
            help="How fast a rank computes: a GPU's model, TFLOP/s,GB/s such as 600,3000, or probe (this "
            "machine, measured now). Default: the fabric's own GPU.",
        ),
    ] = None,
    backend: Annotated[str, typer.Option("--backend", help="auto, gloo or nccl.")] = "auto",
    routing: Annotated[
        str | None, typer.Option("--routing", help="adaptive, hash or pinned, as in `predict`.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("-x", "--env", metavar="NAME=VALUE", help="A variable of NCCL; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> int:
    """Show what a parallel training step sends and holds; with --what-if, how long it takes there."""
    from clusterlab.cli.explain_text import as_data, text_of
    from clusterlab.core.errors import ExitCode, UsageError
    from clusterlab.core.sizes import parse_size
    from clusterlab.runs.train_setup import TrainTyped
    from clusterlab.runs.train_whatif import compute_of, fabric_named, setup_on, what_if
    from clusterlab.trainers.plans.compose import plan_of

    typed = TrainTyped(
        strategy=strategy.lower(),
        dp=dp,
        tp=tp,
        pp=pp,
        ep=ep,
        sequence_parallel=sequence_parallel,
        per_node=per_node,
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=ffn,
        vocab=vocab,
        sequence=sequence,
        experts=experts,
        top_k=top_k,
        capacity=capacity,
        batch=batch,
        micro_batches=micro_batches,
        dtype=dtype,
        data_parallel=data_parallel,
        schedule=schedule,
        chunks=chunks,
        bucket_bytes=parse_size(bucket, where="--bucket"),
        overlap=overlap,
        routing=workload,
    )
    if fabric is None:
        for option, value in (("--compute", compute), ("--routing", routing), ("-x", variables)):
            if value:
                raise UsageError("nothing is predicted", where=option, expected="--what-if FABRIC")
    elif rank is not None:
        raise UsageError(f"{rank}", where="--rank", expected="no --what-if: it shows the slowest")
    place = None if fabric is None else fabric_named(fabric)
    setup = setup_on(typed, ranks, place, backend)
    world_size = setup.mesh.world_size
    if rank is not None and not 0 <= rank < world_size:
        raise UsageError(f"{rank}", where="--rank", expected=f"0 to {world_size - 1}")
    found = None
    if place is not None:
        found = what_if(
            setup,
            place,
            compute_of(compute, place, setup),
            backend=backend,
            routing=routing,
            variables=tuple(variables or ()),
        )
    plan = plan_of(setup, rank or 0) if found is None else found.plan
    if as_json:
        typer.echo(json.dumps(as_data(setup, plan, found, fabric)))
    else:
        typer.echo(text_of(setup, plan, found, fabric))
    return ExitCode.OK


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("explain", epilog=_EXAMPLE)(explain)
