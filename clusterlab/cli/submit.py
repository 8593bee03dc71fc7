"""``clusterlab submit`` and ``clusterlab follow``: a sweep as a Slurm job, and waiting for one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from clusterlab.cli.bench import request
from clusterlab.core.jsontext import json_text

_EXAMPLE = """Examples:

  clusterlab submit all_reduce --nodes 2 --gpus-per-node 8 -b 8 -e 8G

  clusterlab submit all --nodes 4 --site site.toml --time 01:00:00 --no-wait

  clusterlab submit all_gather --nodes 2 --ranks-per-node 2 --dry-run

The table is shown as the job measures it. Ctrl-C stops the waiting, not the job: `clusterlab follow RUN`
waits again, `scancel JOB` cancels. $CLUSTERLAB_RUNS must lie on a file system that all nodes share; nothing
else is asked of them but the same Python: not this directory, not $HOME, no accounting (sacct).

Exit codes are the job's: 0 fine, 1 wrong data or a full disk, 2 usage, 4 a rank died, a deadline or the time
limit passed, a node failed, or the job was cancelled. 130: Ctrl-C.
"""


def submit(
    nodes: Annotated[
        int | None, typer.Option("-N", "--nodes", min=1, help="Nodes (default: the site's, or 2).")
    ] = None,
    gpus_per_node: Annotated[
        int | None,
        typer.Option(
            "--gpus-per-node", min=0, help="GPUs on each node, a rank each (the site's, or 8)."
        ),
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "-g",
            "--ranks-per-node",
            min=1,
            help="Ranks on each node where that is not one per GPU; then GPUs are asked for only "
            "by --gpus-per-node.",
        ),
    ] = None,
    partition: Annotated[str | None, typer.Option("-p", "--partition", help="Partition.")] = None,
    account: Annotated[str | None, typer.Option("-A", "--account", help="Account.")] = None,
    qos: Annotated[str | None, typer.Option("-q", "--qos", help="Quality of service.")] = None,
    time_limit: Annotated[
        str, typer.Option("-t", "--time", help="Time limit: minutes, HH:MM:SS or D-HH:MM:SS.")
    ] = "00:30:00",
    site: Annotated[
        Path | None, typer.Option("--site", help="site.toml with the cluster's defaults.")
    ] = None,
    requeue: Annotated[
        bool,
        typer.Option(
            "--requeue/--no-requeue", help="Start again, and go on, after a node has failed."
        ),
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the sbatch script and submit nothing.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Show the table and wait for the job's end.")
    ] = True,
    **bench_options: Any,
) -> int:
    """Run `clusterlab bench` as a Slurm job, one task per GPU, and show what it measures."""
    from clusterlab.runs.sweeping.submitted import SubmitOptions, script_of, submit_sweep

    wanted = request(**bench_options)
    options = SubmitOptions(
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        ranks_per_node=ranks_per_node,
        partition=partition,
        account=account,
        qos=qos,
        time_limit=time_limit,
        site=site,
        requeue=requeue,
    )
    if dry_run:
        typer.echo(script_of(wanted, options), nl=False)
        return 0
    run, job = submit_sweep(wanted, options)
    if wait:
        from clusterlab.runs.sweeping.following import follow as follow_job

        return follow_job(run, job)
    handle = {"job_id": job.job_id, "run": str(run.path)}
    typer.echo(json_text(handle) if wanted.as_json else run.path)
    return 0


def follow(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or its name under $CLUSTERLAB_RUNS.")
    ],
) -> int:
    """Wait for a job that `clusterlab submit` started, as if never interrupted."""
    from clusterlab.runs.sweeping.following import follow as follow_job
    from clusterlab.runs.sweeping.submitted import submitted_job

    return follow_job(*submitted_job(run))


def _with_bench_options(command: Callable[..., int]) -> Callable[..., int]:
    """``command`` with bench's argument and options for its ``**bench_options``, listed only there.

    Not ``ranks``: that is how many to start on this machine.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    bench = dict(inspect.signature(request, eval_str=True).parameters)
    del bench["ranks"]
    merged = [
        bench.pop("collective"),
        *(p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD),
        *bench.values(),
    ]
    command.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    return command


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.command("submit", epilog=_EXAMPLE)(_with_bench_options(submit))
    root.command(
        "follow", epilog="Example: clusterlab follow runs/20261129T221218Z-all_reduce-98300c"
    )(follow)
