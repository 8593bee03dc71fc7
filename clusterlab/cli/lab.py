"""``clusterlab lab``: a real Slurm of several simulated nodes on this machine."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clusterlab.cli import lab_fabric
from clusterlab.cli.lab_fabric import LabName
from clusterlab.cli.lab_text import print_checks, print_status, progress_line
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text

app = typer.Typer(
    help="A cluster in a box: real Slurm, munge and PMIx, several nodes, pretend GPUs.",
    no_args_is_help=True,
    epilog="Example: clusterlab lab up --nodes 2 && clusterlab lab exec -- srun -N2 hostname",
)

lab_fabric.add(app)


@app.command(
    "up",
    epilog="Examples: clusterlab lab up --nodes 4 --gpus 8 --cpus 16 --sockets 2; "
    "clusterlab lab up --fabric lab-rails-4x2",
)
def up(
    nodes: Annotated[
        int | None, typer.Option(help="Nodes (default: 4; 1 with --flat).", show_default=False)
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            help="GPUs per node (default: 8; with --flat this machine's own).", show_default=False
        ),
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(help="CPUs per node (default: 16, or as real GPUs).", show_default=False),
    ] = None,
    sockets: Annotated[
        int | None, typer.Option(help="Sockets per node (default: 2).", show_default=False)
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory that a node claims, such as 2T (default: an equal share).",
            show_default=False,
        ),
    ] = None,
    gpu_type: Annotated[
        str | None,
        typer.Option(help="GPU type in Gres (default: h100; none if real).", show_default=False),
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option(
            "--fabric",
            help="Nodes, NICs, switches and shaped links of this design (a name or a file).",
            show_default=False,
        ),
    ] = None,
    routing: Annotated[
        str, typer.Option(help="How the fabric's switches choose: pinned (d-mod-k) or hash.")
    ] = "pinned",
    flat: Annotated[
        bool,
        typer.Option(
            "--flat", help="No namespaces: every slurmd on this host, with its real GPUs."
        ),
    ] = False,
    share: Annotated[
        list[Path] | None,
        typer.Option(
            help="A directory below /tmp or /dev/shm that nodes must see too (repeatable)."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A further line of slurm.conf (repeatable).")
    ] = None,
    auth: Annotated[str, typer.Option(help="munge or none.")] = "munge",
    slurmd_timeout: Annotated[
        int, typer.Option(help="Seconds until a dead node is DOWN (SlurmdTimeout).")
    ] = 10,
    kill_wait: Annotated[
        int, typer.Option(help="Seconds between SIGTERM and SIGKILL (KillWait).")
    ] = 5,
    cred_expire: Annotated[
        int, typer.Option(help="Seconds a credential lives; a requeued job waits for it.")
    ] = 10,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for idle nodes.")] = 60.0,
    name: LabName = "default",
) -> None:
    """Bring a lab up and wait until its nodes are idle."""
    from clusterlab.core.sizes import parse_size
    from clusterlab.lab import lifecycle, machine

    begun = time.monotonic()
    found = machine.observe()
    shape = {"nodes": nodes, "gpus": gpus, "cpus": cpus, "sockets": sockets}
    design = lab_fabric.design_of(fabric, routing, shape) if fabric else None
    spec = machine.sized(
        found,
        **(design.shape if design else shape),
        fabric=fabric or "",
        fabric_digest=design.fabric.digest if design else "",
        routing=routing,
        memory_mb=parse_size(memory, where="--memory") >> 20 if memory else None,
        gpu_type=gpu_type,
        flat=flat,
        auth=auth,
        slurmd_timeout_s=slurmd_timeout,
        kill_wait_s=kill_wait,
        cred_expire_s=cred_expire,
        extra_conf=conf or (),
    )
    with progress_line() as progress:
        lab = lifecycle.up(
            spec,
            name=name,
            share=_directories(share or []),
            fabric=design,
            machine=found,
            timeout_s=timeout,
            progress=progress,
        )
    kind = "real" if lab.spec.real_gpus else "pretend"
    typer.echo(
        f"lab {name}: {spec.nodes} nodes × {spec.gpus} {kind} GPUs idle "
        f"after {time.monotonic() - begun:.2f} s ({lab.layout.run_dir})"
    )
    option = "" if name == "default" else f"--name {name} "
    typer.echo(f"next: clusterlab lab exec {option}-- srun -N{spec.nodes} hostname")


@app.command("down", epilog="Example: clusterlab lab down --all")
def down(
    name: LabName = "default",
    every: Annotated[bool, typer.Option("--all", help="Every lab of yours.")] = False,
) -> None:
    """Take a lab down: its processes, mounts, namespaces, links and files go."""
    from clusterlab.lab import labs, lifecycle

    for lab in labs.names() if every else [name]:
        begun = time.monotonic()
        was_up = lifecycle.down(name=lab)
        done = f"down after {time.monotonic() - begun:.2f} s" if was_up else "was not up"
        typer.echo(f"lab {lab}: {done}")


@app.command("status", epilog="Example: clusterlab lab status --json")
def status(
    name: LabName = "default",
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Say what is up. Exit status 0 when every daemon runs and every node serves, else 1."""
    from clusterlab.lab import labs
    from clusterlab.lab.layout import find_layout

    layout = find_layout(name)
    lab = labs.load(layout)
    now = labs.status(lab) if lab else labs.LabStatus(name, False, str(layout.run_dir))
    if as_json:
        typer.echo(json_text(asdict(now) | {"healthy": now.healthy}, indent=1))
    else:
        print_status(now)
        others = [other for other in labs.names() if other != name]
        if others:
            typer.echo(f"other labs: {', '.join(others)}")
    if not now.healthy:
        raise typer.Exit(ExitCode.FINDING)


@app.command(
    "exec",
    epilog="Example: clusterlab lab exec --node n0 -- hostname",
    # What follows the command's name is the command's, with or without `--`.
    context_settings={"allow_interspersed_args": False},
)
def execute(
    command: Annotated[list[str], typer.Argument(help="The command, after `--`.")],
    node: Annotated[
        str | None, typer.Option(help="A node (default: the login host).", show_default=False)
    ] = None,
    name: LabName = "default",
) -> None:
    """Run a command in the lab, in this directory; its exit status and signals pass through."""
    from clusterlab.lab import labs
    from clusterlab.lab.mounts import hidden_from_nodes

    lab = labs.find(name)
    line = labs.enter_command(lab, command, node=node)
    submits = Path(command[0]).name in ("sbatch", "srun", "salloc")
    if submits and not lab.spec.flat and hidden_from_nodes(Path.cwd(), lab.setup.shared):
        print(
            f"clusterlab: {Path.cwd()} is not shared: each node has a /tmp and /dev/shm of its own; "
            f"`lab up --share {Path.cwd()}` shares it",
            file=sys.stderr,
        )
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(line[0], line, labs.environment(lab))


@app.command("kill-node", epilog="Example: clusterlab lab kill-node n1")
def kill_node(
    node: Annotated[str, typer.Argument(help="The node, such as n1.")], name: LabName = "default"
) -> None:
    """Cut a node's power: every process on it ends at once, without a signal first."""
    from clusterlab.lab import labs, lifecycle

    lab = labs.find(name)
    lifecycle.kill_node(lab, node)
    typer.echo(
        f"{node} is off; Slurm calls it DOWN after about {lab.spec.slurmd_timeout_s} s "
        "(SlurmdTimeout)"
    )


@app.command("boot-node", epilog="Example: clusterlab lab boot-node n1")
def boot_node(
    node: Annotated[str, typer.Argument(help="The node, such as n1.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait until Slurm uses it.")] = 60.0,
    name: LabName = "default",
) -> None:
    """Switch a node on again and wait until Slurm uses it."""
    from clusterlab.lab import labs, lifecycle

    begun = time.monotonic()
    with progress_line() as progress:
        booted = lifecycle.boot_node(labs.find(name), node, timeout_s=timeout, progress=progress)
    done = f"serves after {time.monotonic() - begun:.2f} s" if booted else "was on"
    typer.echo(f"{node} {done}")


@app.command("doctor", epilog="Example: clusterlab lab doctor --flat")
def doctor(
    flat: Annotated[bool, typer.Option("--flat", help="What `lab up --flat` needs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Say what this machine lacks for a lab, with the command that mends it."""
    from clusterlab.lab.doctor import MISSING, examine
    from clusterlab.lab.machine import observe

    checks = examine(observe(), flat=flat)
    if as_json:
        typer.echo(json_text([check.to_json() for check in checks], indent=1))
    else:
        print_checks(checks)
    if any(check.status == MISSING for check in checks):
        raise typer.Exit(ExitCode.FINDING)


def register(root: typer.Typer) -> None:
    """Add this file's commands to the root command."""
    root.add_typer(app, name="lab")


def _directories(paths: list[Path]) -> list[Path]:
    for path in paths:
        if not path.is_dir():
            raise UsageError("is not a directory", where=f"--share {path}")
    return paths
