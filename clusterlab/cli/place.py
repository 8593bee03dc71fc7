"""``clusterlab place``: a better order of ranks on the hosts a job got."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterlab.cli.output import output_file
from clusterlab.core.jsontext import json_text
from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from clusterlab.cost.placing.propose import Priced
    from clusterlab.runs.placing import Placed

_EXAMPLE = """Examples:

  clusterlab place superpod-h100-4su --nodes 'n[3,40,7,99]' --pattern tp8,dp

  clusterlab place my.yaml --nodes "$SLURM_JOB_NODELIST" --pattern tp8,pp4,dp:1G --routing hash -o hosts.txt
  SLURM_HOSTFILE=hosts.txt srun --distribution=arbitrary …

Axes, the fastest-varying first: tp, sp, cp, ep, pp, fsdp, dp; a number is the group's width, :SIZE the
bytes of a call, *N the calls of a training step. Exit codes: 0 answered, 2 not possible.
"""


def place(
    fabric: Annotated[str, typer.Argument(help="A name of `topo list`, or a file.")],
    nodes: Annotated[
        str, typer.Option("--nodes", "-w", help="The job's hosts as a Slurm hostlist, or @FILE.")
    ],
    pattern: Annotated[
        str, typer.Option("--pattern", help="What ranks do together: tp8,dp or tp8,pp4,dp:1G.")
    ],
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-n", help="Ranks (default: a rank per GPU).")
    ] = None,
    per_host: Annotated[
        int | None, typer.Option("--ranks-per-node", help="Ranks on a host (default: its GPUs).")
    ] = None,
    distribution: Annotated[
        str,
        typer.Option(
            "--distribution", "-m", help="The order to beat: block, cyclic, plane=K or arbitrary."
        ),
    ] = "block",
    routing: Annotated[
        str | None,
        typer.Option(
            "--routing", help="adaptive (default for NCCL), hash (ECMP) or pinned (gloo's)."
        ),
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", help="auto (nccl, gloo for a lab's pretended GPUs) or one.")
    ] = "auto",
    variables: Annotated[
        list[str] | None,
        typer.Option("-x", "--env", metavar="NAME=VALUE", help="A variable of NCCL; repeatable."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Write the hostfile (a host per task).", callback=output_file
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> int:
    """Propose a faster order of a job's ranks, with the predicted gain, in the form srun takes."""
    from clusterlab.cli.output import write_output
    from clusterlab.core.errors import ExitCode
    from clusterlab.runs.placing import PlaceOptions
    from clusterlab.runs.placing import place as answer

    found = answer(
        PlaceOptions(
            fabric,
            nodes,
            ranks,
            per_host,
            pattern,
            distribution,
            routing,
            tuple(variables or ()),
            backend,
        )
    )
    if output is not None:
        write_output(output, found.hostfile)
    typer.echo(json_text(_as_json(found)) if as_json else _text(found, output))
    return ExitCode.OK


def _text(found: Placed, output: Path | None) -> str:
    proposal = found.proposal
    lines = [
        f"{'axis':6} {'collective':14} {'calls':>6} {'of':>8}  {'given order':>13}  {'best order':>13}"
        "  limited by"
    ]
    for (axis, before), (_, after) in zip(proposal.given.axes, proposal.best.axes, strict=True):
        lines.append(
            f"{axis.name + str(axis.width):6} {axis.collective:14}"
            f" {axis.calls:6} {human_size(axis.size_bytes):>8}"
            f"  {before.time_us:10.1f} us  {after.time_us:10.1f} us  {before.bottleneck.name}"
        )
    if proposal.best is proposal.given:
        lines.append(f"keep the given order: none of {proposal.tried} orders tried is faster")
        return "\n".join(lines)
    lines.append(
        f"best of {proposal.tried} orders: {proposal.gain:.2f}x"
        f" ({proposal.given.time_us / 1e3:.1f} -> {proposal.best.time_us / 1e3:.1f} ms of"
        " communication a step)"
    )
    lines.append(f"hosts in order: {found.order}")
    file = output or "hosts.txt"
    if output is None:
        lines.append(f"write it with -o {file}, then:")
    lines.append(f"SLURM_HOSTFILE={file} srun --distribution=arbitrary -n {found.job.ranks} …")
    return "\n".join(lines)


def _as_json(found: Placed) -> dict[str, Any]:
    def one(priced: Priced) -> dict[str, Any]:
        axes = [
            {
                "axis": axis.name, "width": axis.width, "collective": axis.collective,
                "size_bytes": axis.size_bytes, "calls": axis.calls, "time_us": p.time_us,
                "bottleneck": p.bottleneck.name,
            }
            for axis, p in priced.axes
        ]  # fmt: skip
        return {"time_us": priced.time_us, "hosts": list(priced.hosts), "axes": axes}

    proposal = found.proposal
    return {
        "gain": proposal.gain,
        "tried": proposal.tried,
        "given": one(proposal.given),
        "best": one(proposal.best),
    }


def register(root: typer.Typer) -> None:
    """Add this file's command to the root command."""
    root.command("place", epilog=_EXAMPLE)(place)
