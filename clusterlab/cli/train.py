"""``clusterlab train``: a tiny transformer, trained in parallel, every byte accounted for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.cli import train_options as options
from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.runs.training.setup import TrainTyped

_EXAMPLE = """Examples:

  clusterlab train dp -g 4                           data parallel on 4 local ranks

  clusterlab train tp --tp 2 --dp 2 --hidden 256     tensor parallel pairs, two of them

  clusterlab train pp -g 4 --schedule gpipe --micro-batches 8

  clusterlab train 3d -g 8 --trace step.json         tp, pp and dp at once; the last step for Perfetto

  clusterlab train tp -g 2 --fabric host             predicted beside measured, on this host's cores

  srun --mpi=pmix --ntasks-per-node=8 clusterlab train ep --steps 100

  clusterlab train tp --what-if superpod-h100-4su --tp 8 --dp 127     the same step elsewhere, predicted

SIGUSR1 writes a checkpoint, SIGTERM writes one and ends. The same command with CLUSTERLAB_RUN_DIR set to the
run goes on from it.

Exit codes: 0 fine, 1 the loss is not finite, 2 usage, 4 a rank died or a deadline passed, 128+n signal n.
"""


def train(
    strategy: options.Strategy,
    ranks: Annotated[
        int | None,
        typer.Option(
            "-g",
            "--ranks",
            "--ngpus",
            help="Ranks to start here (default: the mesh's, the GPUs, or 4).",
        ),
    ] = None,
    dp: options.Dp = None,
    tp: options.Tp = None,
    pp: options.Pp = None,
    ep: options.Ep = None,
    sequence_parallel: options.SequenceParallel = None,
    per_node: options.PerNode = None,
    steps: Annotated[int, typer.Option("--steps", help="Training steps.")] = 20,
    batch: options.Batch = None,
    micro_batches: options.MicroBatches = None,
    layers: options.Layers = None,
    hidden: options.Hidden = None,
    heads: options.Heads = None,
    ffn: options.Ffn = None,
    vocab: options.Vocab = None,
    sequence: options.Sequence = None,
    experts: Annotated[
        int | None, typer.Option("--experts", help="Experts of every block (0: a dense MLP).")
    ] = None,
    top_k: options.TopK = None,
    capacity: Annotated[
        float | None,
        typer.Option(
            "--capacity", help="An expert takes this many times its share, and drops the rest."
        ),
    ] = None,
    workload: Annotated[
        str,
        typer.Option(
            "--workload",
            help="Who chooses experts: learned, balanced, hot_expert, hot_rank, ragged, zero_load, rotating "
            "or bursty.",
        ),
    ] = "learned",
    expert_backend: options.ExpertBackend = "collectives",
    data_parallel: options.DataParallel = "ddp",
    bucket: options.Bucket = "1M",
    overlap: options.Overlap = True,
    schedule: options.Schedule = "1f1b",
    chunks: options.Chunks = None,
    library: Annotated[
        bool, typer.Option("--library", help="By torch's own parallel parts where it has them.")
    ] = False,
    dtype: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--dtype",
            help="float64, float32, bfloat16, or fp8 (bfloat16, MLPs multiply in 8 bits). "
            "Default: by the backend.",
        ),
    ] = None,
    lr: Annotated[float, typer.Option("--lr", help="Of plain SGD.")] = 0.1,
    seed: Annotated[int, typer.Option("--seed", help="Of weights and data.")] = 1,
    text: Annotated[
        bool, typer.Option("--text", help="Learn from a small text instead of made-up tokens.")
    ] = False,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", help="Steps; 0: only when a signal asks.")
    ] = 10,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="Write the last step of all ranks for Perfetto.",
            callback=output_file,
        ),
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            help="Predict steps and collectives before they are measured: a design, or host (these cores).",
        ),
    ] = None,
    what_if: Annotated[
        str | None,
        typer.Option(
            "--what-if",
            metavar="FABRIC",
            help="Train nothing: predict the step there, as `explain`.",
        ),
    ] = None,
    compute: Annotated[
        str | None,
        typer.Option(
            "--compute", help="With either: a GPU's model, TFLOP/s,GB/s, or probe (this device)."
        ),
    ] = None,
    backend: options.Backend = "auto",
    deadline_s: Annotated[
        float, typer.Option("--deadline", "-T", help="Seconds one step may take.")
    ] = 300.0,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run (default: train_STRATEGY).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line per step on stdout instead of the table.")
    ] = False,
) -> int:
    """Train a tiny transformer in parallel: each step's loss, time and where it went."""
    from clusterlab.core.sizes import parse_size
    from clusterlab.runs.training.setup import TrainTyped
    from clusterlab.runs.training.train import TrainRequest, run_train

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
        steps=steps,
        lr=lr,
        seed=seed,
        dtype=dtype,
        data_parallel=data_parallel,
        schedule=schedule,
        chunks=chunks,
        bucket_bytes=parse_size(bucket, where="--bucket"),
        overlap=overlap,
        library=library,
        routing=workload,
        expert_backend=expert_backend,
        text=text,
    )
    if what_if is not None:
        return _predict(typed, ranks, what_if, compute, backend=backend, as_json=as_json)
    return run_train(
        TrainRequest(
            typed=typed,
            ranks=ranks,
            backend=backend,
            name=name,
            checkpoint_every=checkpoint_every,
            deadline_s=deadline_s,
            as_json=as_json,
            trace=trace,
            fabric=fabric,
            compute=compute,
        )
    )


def _predict(
    typed: TrainTyped,
    ranks: int | None,
    name: str,
    compute: str | None,
    *,
    backend: str,
    as_json: bool,
) -> int:

    from clusterlab.cli.explain_text import as_data, text_of
    from clusterlab.runs.training.whatif import compute_of, fabric_named, setup_on, what_if

    fabric = fabric_named(name)
    setup = setup_on(typed, ranks, fabric, backend)
    found = what_if(setup, fabric, compute_of(compute, fabric, setup), backend=backend)
    if as_json:
        typer.echo(json_text(as_data(setup, found.plan, found, name)))
    else:
        typer.echo(text_of(setup, found.plan, found, name))
    return 0


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("train", epilog=_EXAMPLE)(train)
