"""``clusterlab bind explain``: what Slurm will give each task, before the job is submitted."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clusterlab.binding.explain.explaining import Explanation
    from clusterlab.binding.explain.predict import Task

EXAMPLE = """Examples:

  clusterlab bind explain --node-profile lab --nodes 2 --submit "srun -N2 -n16 --gpus-per-task=1"

  clusterlab bind explain --node-profile lab --nodes 1 --busy n0:gpu=0-2 --submit "srun -n4 -G4" --json

  clusterlab bind explain --node-profile node.yaml --nodes 4 --constrain-devices
  --submit "sbatch -N4 --gpus-per-node=8" --step "srun --ntasks-per-node=8 --gpu-bind=closest"

Nodes are called n0, n1, … Steps with & or --exact are taken to run side by side. The rules of Slurm
22.05 are measured; those of other versions follow its sources. Exit codes: 0 also where Slurm refuses
the job, 2 input that cannot be read.
"""


def explain_command(
    node_profile: Annotated[
        str,
        typer.Option(
            help="`lab`; a YAML profile; a fabric or a file of `topo discover`; slurm.conf or "
            "`scontrol show node`."
        ),
    ],
    nodes: Annotated[int, typer.Option(help="Nodes of the partition, all alike.")],
    submit: Annotated[str, typer.Option(help="The srun, sbatch or salloc command line.")],
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
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Say which task gets which host, mask, GPUs and cores, what Slurm refuses, what will surprise."""
    from clusterlab.binding.explain.explaining import cluster_of, explain
    from clusterlab.binding.explain.profile_files import open_profile
    from clusterlab.binding.explain.versions import slurm_rules

    rules = slurm_rules(slurm_version)
    cluster = cluster_of(
        open_profile(node_profile),
        nodes,
        rules,
        constrain_devices=constrain_devices,
        busy=busy or [],
    )
    found = explain(submit, step or [], cluster)
    typer.echo(json.dumps(found.to_json()) if as_json else _text(found))


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
    from clusterlab.binding.records import cpu_list

    return cpu_list(set(numbers))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _wrapped(lead: str, text: str) -> list[str]:
    return textwrap.wrap(
        lead + text, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
