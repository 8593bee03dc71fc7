"""``clusterlab bind explain``: what Slurm will give each task, before the job is submitted."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.binding.explain.explaining import Explanation
    from clusterlab.binding.explain.predict import Task
    from clusterlab.binding.explain.profile import NodeProfile

# \b: click keeps the line ends of that paragraph.
EXAMPLE = """\b
Examples:
  clusterlab bind explain --submit "srun -N2 -n16 --gpus-per-task=1"
  clusterlab bind explain --node-profile lab --nodes 1 --json \\
      --busy n0:gpu=0-2 --submit "srun -n4 -G4"
  clusterlab bind explain --node-profile dgx-h100 --nodes 4 \\
      --constrain-devices --submit "sbatch -N4 -n32 --gpus-per-node=8" \\
      --step "srun --ntasks-per-node=8 --gpu-bind=closest"

\b
A node profile of one's own, in YAML:
  name: mine
  sockets: 2
  cores_per_socket: 56
  threads_per_core: 2            # default 1
  gpus:
    - {count: 4, cores: 0-55}    # gres.conf's Cores=
    - {count: 4, cores: 56-111}  # without cores: near all of them

Nodes are called n0, n1, … Steps with & or --exact are taken to run side by side. Each advice was tried: with
it the prediction lacks the problem and has no new one. A note depends on the program. The rules of Slurm
22.05 are measured; those of other versions follow its sources.

Exit codes: 0 also where Slurm refuses the job, 2 input that cannot be read.
"""

_NODES_ELSEWHERE = 4


def explain_command(
    submit: Annotated[str, typer.Option(help="The srun, sbatch or salloc command line.")],
    node_profile: Annotated[
        str | None,
        typer.Option(
            help="`lab`; a YAML profile; a fabric or a file of `topo discover`; slurm.conf (with the "
            "gres.conf beside it) or `scontrol show node`.  [default: this cluster's, else `lab`]",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            help="Nodes of the partition, all alike.  [default: this cluster's, else 4 or as many as "
            "--submit asks for]",
            show_default=False,
        ),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(help="An srun in the batch script, in its order (repeatable)."),
    ] = None,
    slurm_version: Annotated[str, typer.Option(help="Slurm's version.")] = "22.05",
    constrain_devices: Annotated[
        bool, typer.Option("--constrain-devices", help="cgroup.conf has ConstrainDevices=yes.")
    ] = False,
    busy: Annotated[
        list[str] | None,
        typer.Option(help="What other jobs hold: n0:gpu=0-2 or n0:gpu=0-2,cpu=0-7 (repeatable)."),
    ] = None,
    cores_per_socket: Annotated[
        int | None,
        typer.Option(min=1, help="Cores of a NUMA domain, for a fabric that does not say."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Say which task gets which host, mask, GPUs and cores, what Slurm refuses, what will surprise."""
    from clusterlab.binding.explain.explaining import cluster_of, explain
    from clusterlab.binding.explain.versions import slurm_rules

    rules = slurm_rules(slurm_version)
    profile, there = _node(node_profile, cores_per_socket)
    cluster = cluster_of(
        profile,
        nodes if nodes is not None else there or _asked_nodes(submit),
        rules,
        constrain_devices=constrain_devices,
        busy=busy or [],
    )
    found = explain(submit, step or [], cluster)
    typer.echo(json_text(found.to_json()) if as_json else _text(found))


def _node(said: str | None, cores_per_socket: int | None) -> tuple[NodeProfile, int | None]:
    """The node, and how many there are like it where Slurm tells."""
    from clusterlab.binding.explain.profile_files import open_profile

    if said is not None:
        return open_profile(said, cores_per_socket=cores_per_socket), None
    from clusterlab.runs.diagnosing.this_cluster import this_cluster

    found = this_cluster(os.environ)
    if found is None:
        text = "no --node-profile, and no Slurm answers here: taking `lab`, 2 x 8 cores and 8 GPUs"
        typer.echo(f"clusterlab: {text}", err=True)
        return open_profile("lab"), None
    return found.profile, found.nodes


def _asked_nodes(submit: str) -> int:
    """As many nodes as the line asks for, at least a few."""
    asked = re.findall(r"(?:-N|--nodes)[= ]?(?:[0-9]{1,4}-)?([0-9]{1,4})\b", submit)
    return max([_NODES_ELSEWHERE, *map(int, asked)])


def _text(found: Explanation) -> str:
    lines = _table(found.tasks) if found.tasks else []
    if found.rejected is not None:
        lines += ["rejected:", *(f"  {line}" for line in found.rejected.splitlines())]
    lines += [wrapped for warning in found.warnings for wrapped in _wrapped("- ", warning)]
    lines += [wrapped for note in found.notes for wrapped in _wrapped("- note: ", note)]
    return "\n".join(lines)


_HEAD = ("step", "task", "node", "local", "CUDA_VISIBLE_DEVICES", "GPUs", "CPUs")
_WIDEST_MASK, _WIDEST_GPUS, _WIDEST_CPUS = 24, 16, 24  # with the rest below 100 columns


def _table(tasks: tuple[Task, ...]) -> list[str]:
    rows = [_HEAD, *(_row(task) for task in tasks)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _row(task: Task) -> tuple[str, ...]:
    mask = "(unset)" if task.cuda_visible_devices is None else task.cuda_visible_devices
    return (
        str(task.step),
        str(task.procid),
        task.node,
        str(task.localid),
        _cut(mask, _WIDEST_MASK),
        _cut(_ranges(task.gpus) or "-", _WIDEST_GPUS),
        _cut(_ranges(map(int, task.cpus.split(","))), _WIDEST_CPUS),
    )


def _ranges(numbers: Iterable[int]) -> str:
    from clusterlab.core.order import number_list

    return number_list(set(numbers))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(
        lead + text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
