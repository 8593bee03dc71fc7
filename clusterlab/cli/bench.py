"""``clusterlab bench``: measure collectives, with nccl-tests' flags."""

from __future__ import annotations

from functools import wraps
from typing import Annotated, Any

import typer

from clusterlab.cli.output import output_file
from clusterlab.cli.rank_options import Backend, LocalRanks
from clusterlab.runs.sweeping.request import BenchRequest

_EXAMPLE = """Examples:

  clusterlab bench all_reduce -b 8 -e 1M -f 4              local ranks over gloo, or this machine's GPUs

  clusterlab bench all -b 1K -e 16M -d all -o all -g 8     everything the backend has

  clusterlab bench pairs -b 64K -e 1M -f 4 -g 4            latency and bandwidth of every pair of ranks

  clusterlab bench all_reduce --pattern rail -b 64M        every rail at once, a row for each

  clusterlab bench all_reduce --timing all -n auto         torch's calls, a CUDA graph, NCCL's own calls

  torchrun --nproc-per-node 8 -m clusterlab bench all_gather -b 8 -e 8G

The verdict does not change the exit code: `clusterlab report RUN --check` does that.

Exit codes: 0 fine, 1 wrong data or a full disk, 2 usage, 4 a rank died or a deadline passed, 128+n signal n.
"""


def request(
    collective: Annotated[
        str,
        typer.Argument(
            help="all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce, send_recv "
            "(nccl-tests' spellings too), several with commas, or all (these seven); alltoallv, gather, "
            "scatter; or pairs: every pair of ranks."
        ),
    ],
    begin: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--minbytes",
            help="Smallest size: 8, 4K, 1.5M, 1G (default: 8 on NCCL, 1K on gloo; of pairs 64M and 64K).",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "-e",
            "--maxbytes",
            help="Largest size (default: with -b alone that size; else 8G on NCCL, 16M on gloo; of pairs "
            "256M and 4M).",
        ),
    ] = None,
    factor: Annotated[
        float | None,
        typer.Option(
            "-f",
            "--stepfactor",
            help="Multiply sizes by this (default 2; of pairs 4 on NCCL, 8 on gloo).",
        ),
    ] = None,
    step: Annotated[
        str | None, typer.Option("-i", "--stepbytes", help="Or add this to each size.")
    ] = None,
    iterations: Annotated[
        str,
        typer.Option(
            "-n",
            "--iters",
            help="Timed iterations per point; auto: until the median is known to --within.",
        ),
    ] = "20",
    warmup: Annotated[
        str,
        typer.Option(
            "-w",
            "--warmup_iters",
            "--warmup-iters",
            help="Untimed iterations first; auto: by size.",
        ),
    ] = "5",
    within: Annotated[
        float,
        typer.Option(
            "--within", help="With -n auto: how well the median is to be known (0.02: 2 %)."
        ),
    ] = 0.02,
    budget_s: Annotated[
        float, typer.Option("--budget", help="With -n auto: at most these seconds for a point.")
    ] = 1.0,
    timing: Annotated[
        str | None,
        typer.Option(
            "--timing",
            help="eager (torch's calls, what training feels), graph (CUDA graph, what the fabric does), "
            "direct (NCCL's own calls, as nccl-tests), several with commas, or all.",
        ),
    ] = None,
    graph_launches: Annotated[
        int,
        typer.Option(
            "-G", "--cudagraph", help="Replay a CUDA graph of -n calls this often (0: none)."
        ),
    ] = 0,
    aggregated: Annotated[
        int,
        typer.Option(
            "-m", "--agg_iters", "--agg-iters", help="Calls in one NCCL group; not on gloo."
        ),
    ] = 1,
    blocking: Annotated[
        int,
        typer.Option(
            "-z",
            "--blocking",
            help="Let the host wait after each call (1 or 2); ranks do not wait for each other.",
        ),
    ] = 0,
    check: Annotated[
        int, typer.Option("-c", "--check", min=0, max=1, help="Check the data (1) or not (0).")
    ] = 1,
    op: Annotated[
        str, typer.Option("-o", "--op", help="sum, prod, min, max, avg, several, or all.")
    ] = "sum",
    dtype: Annotated[
        str,
        typer.Option(
            "-d",
            "--datatype",
            help="float, half, bfloat16, int32, … (torch's or nccl-tests'), or all.",
        ),
    ] = "float",
    root: Annotated[
        int,
        typer.Option("-r", "--root", help="Root rank of broadcast, reduce, gather and scatter."),
    ] = 0,
    ranks: LocalRanks = None,
    place: Annotated[
        str, typer.Option("--place", help="out (of place), in (place) or both.")
    ] = "both",
    backend: Backend = "auto",
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            envvar="CLUSTERLAB_FABRIC",
            help="Predict on this design: a name of `topo list` or a file.",
        ),
    ] = None,
    deadline_s: Annotated[
        float,
        typer.Option(
            "--deadline",
            "-T",
            "--timeout",
            help="Seconds one point may take before the job ends and says who did not arrive.",
        ),
    ] = 300.0,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run (default: the collective).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON line per row on stdout instead of the table.")
    ] = False,
    strict_table: Annotated[
        bool,
        typer.Option(
            "--nccl-tests", help="Print nccl-tests' columns only, for parsers that count."
        ),
    ] = False,
    corrupt: Annotated[
        str | None,
        typer.Option(
            "--corrupt", help="RANK:INDEX: spoil one received element, to see the check catch it."
        ),
    ] = None,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one", help="Pairs or groups one after the other, not at the same time."
        ),
    ] = False,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            help="Groups of ranks that run at the same time: all (one), node, rail, halves, nodes:K or "
            "groups:0-3/4-7.",
        ),
    ] = None,
    uneven: Annotated[
        str | None,
        typer.Option(
            "--uneven",
            help="How parts of an alltoallv differ: linear, hot:F, random:SEED, or a file with a matrix "
            "of bytes.",
        ),
    ] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after wrong data instead of ending there.")
    ] = False,
    per_iteration: Annotated[
        int,
        typer.Option(
            "-I",
            "--per_iter_timing",
            min=0,
            max=1,
            help="Columns for the iterations' min, max, p99 and cv (1).",
        ),
    ] = 0,
    output_file: Annotated[
        str | None,
        typer.Option(
            "-J",
            "--output_file",
            help="Write nccl-tests' JSON to this file as well.",
            callback=output_file,
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            help="Whose GPU memory to use: nccl (NCCL's allocator, as nccl-tests: a CUDA graph's buffers are "
            "registered) or torch (as training).",
        ),
    ] = "nccl",
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration", help="Predict with this system's calibration (`clusterlab calibrate`)."
        ),
    ] = None,
) -> BenchRequest:
    """What was typed; these options are ``clusterlab submit``'s too."""
    return BenchRequest(
        collective_text=collective,
        begin=begin,
        end=end,
        factor=factor,
        step=step,
        iterations=iterations,
        warmup=warmup,
        check=bool(check),
        op_text=op,
        dtype_text=dtype,
        root=root,
        ranks=ranks,
        place=place,
        backend=backend,
        fabric=fabric,
        deadline_s=deadline_s,
        name=name,
        as_json=as_json,
        strict_table=strict_table,
        corrupt=corrupt,
        one_by_one=one_by_one,
        timing=timing,
        graph_launches=graph_launches,
        aggregated=aggregated,
        blocking=blocking,
        median_within=within,
        budget_s=budget_s,
        pattern=pattern,
        uneven=uneven,
        keep_going=keep_going,
        per_iteration=bool(per_iteration),
        output_file=output_file,
        calibration=calibration,
        memory=memory,
    )


@wraps(request, assigned=("__annotations__",))  # its options, not its name and docstring
def bench(*arguments: Any, **options: Any) -> int:
    """Measure collectives: nccl-tests' table, each point predicted before it is measured."""
    from clusterlab.runs.sweeping.bench import run_bench

    return run_bench(request(*arguments, **options))


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("bench", epilog=_EXAMPLE)(bench)
