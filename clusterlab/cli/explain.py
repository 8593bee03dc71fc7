"""``clusterlab explain``: what a parallel training step sends, computes and holds, before any of it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.cli import train_options as options
from clusterlab.core.jsontext import json_text

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
    strategy: options.Strategy,
    ranks: Annotated[
        int | None,
        typer.Option("-g", "--ranks", help="Ranks (default: the mesh's; 4, or 8 for 3d)."),
    ] = None,
    dp: options.Dp = None,
    tp: options.Tp = None,
    pp: options.Pp = None,
    ep: options.Ep = None,
    sequence_parallel: options.SequenceParallel = None,
    per_node: options.PerNode = None,
    layers: options.Layers = None,
    hidden: options.Hidden = None,
    heads: options.Heads = None,
    ffn: options.Ffn = None,
    vocab: options.Vocab = None,
    sequence: options.Sequence = None,
    experts: Annotated[int | None, typer.Option("--experts", help="Of every block.")] = None,
    top_k: options.TopK = None,
    capacity: Annotated[
        float | None, typer.Option("--capacity", help="Times its share that an expert takes.")
    ] = None,
    workload: Annotated[
        str, typer.Option("--workload", help="Who chooses experts, as in `train`.")
    ] = "learned",
    expert_backend: options.ExpertBackend = "collectives",
    batch: options.Batch = None,
    micro_batches: options.MicroBatches = None,
    data_parallel: options.DataParallel = "ddp",
    bucket: options.Bucket = "1M",
    overlap: options.Overlap = True,
    schedule: options.Schedule = "1f1b",
    chunks: options.Chunks = None,
    dtype: Annotated[
        str | None,
        typer.Option("-d", "--dtype", help="float64, float32, bfloat16 (default for GPUs), fp8."),
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
    backend: options.Backend = "auto",
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
    from clusterlab.runs.training.setup import TrainTyped
    from clusterlab.runs.training.whatif import compute_of, fabric_named, setup_on, what_if
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
        expert_backend=expert_backend,
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
        typer.echo(json_text(as_data(setup, plan, found, fabric)))
    else:
        typer.echo(text_of(setup, plan, found, fabric))
    return ExitCode.OK


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("explain", epilog=_EXAMPLE)(explain)
