"""``clusterlab hunt``: find the slow NIC, cable, switch or host of an allocation."""

from __future__ import annotations

from typing import Annotated

import typer

from clusterlab.cli.rank_options import Backend, LocalRanks

_EXAMPLE = """Examples:

  srun --mpi=pmix --ntasks-per-node=8 clusterlab hunt --fabric superpod-h100-1su --routing pinned

  sbatch jobs/hunt.sbatch --budget 5m

  torchrun --nproc-per-node 8 -m clusterlab hunt --json

Each round measures, at the same time, the messages that tell most about what is not known yet; none is made
that would tell nothing. Ports that are down and cores that others keep busy are looked at first. The run
directory gets a row for each message, hunt.json with every round and its reason, and the findings.

Ranks that share one host's cores over gloo (a laptop, CI) cannot be hunted: no verdict, before any starts.
There `clusterlab lab up` makes hosts of their own.

Exit codes: 0 healthy, 1 something is named, 2 usage, 3 neither before the budget ended, 4 a rank died.
"""


def hunt(
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            envvar="CLUSTERLAB_FABRIC",
            help="The design or file that says how hosts are cabled (default: the one of these GPUs; "
            "without one, hosts are as near as it gets).",
        ),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", help="How long it may take: 90s, 10m, 1h.")
    ] = "10m",
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing",
            help="How switches choose among equal ways: pinned, adaptive or hash (default: as the fabric "
            "says, else pinned for gloo, adaptive for NCCL).",
        ),
    ] = None,
    rounds: Annotated[int, typer.Option("--rounds", help="At most so many rounds.")] = 60,
    size: Annotated[
        str | None,
        typer.Option("-b", "--bytes", help="Size of a message (default: 64M on NCCL, 1M on gloo)."),
    ] = None,
    calls: Annotated[
        int | None,
        typer.Option(
            "-n", "--iters", help="Timed messages of a pair (default: 20 on NCCL, 5 on gloo)."
        ),
    ] = None,
    deadline_s: Annotated[
        float,
        typer.Option("--deadline", "-T", help="Seconds after which a pair's messages have failed."),
    ] = 20.0,
    sure: Annotated[
        float, typer.Option("--sure", help="The probability from which a fault is named.")
    ] = 0.99,
    ranks: LocalRanks = None,
    backend: Backend = "auto",
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run (default: hunt).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The outcome as JSON on stdout.")] = False,
) -> int:
    """Measure what tells most, round after round, until the slow component has a name."""
    from clusterlab.runs.hunting.hunt import run_hunt
    from clusterlab.runs.hunting.plan import resolve_hunt

    config = resolve_hunt(
        backend=backend,
        fabric=fabric,
        routing=routing,
        budget=budget,
        rounds=rounds,
        size=size,
        calls=calls,
        deadline_s=deadline_s,
        sure=sure,
    )
    return run_hunt(config, ranks=ranks, name=name, as_json=as_json)


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("hunt", epilog=_EXAMPLE)(hunt)
