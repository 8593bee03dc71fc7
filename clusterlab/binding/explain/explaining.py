"""From the words of a command line to a prediction and its warnings."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.binding.explain.advice import Job, advised
from clusterlab.binding.explain.available import Node
from clusterlab.binding.explain.busy import Held, read_busy
from clusterlab.binding.explain.command_line import CommandLine, read_command_lines
from clusterlab.binding.explain.predict import Cluster, Task, predict
from clusterlab.binding.explain.profile import NodeProfile
from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.binding.explain.versions import SlurmRules
from clusterlab.core.errors import UsageError

_MOST_NODES = 4096


@dataclass(frozen=True)
class Explanation:
    """The tasks, Slurm's message where it refuses, what will surprise, and what may (``notes``)."""

    tasks: tuple[Task, ...]
    rejected: str | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As `bind explain --json` prints it."""
        return {
            "tasks": [task.to_json() for task in self.tasks],
            "rejected": self.rejected,
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def cluster_of(
    profile: NodeProfile,
    nodes: int,
    rules: SlurmRules,
    *,
    constrain_devices: bool = False,
    busy: Sequence[str] = (),
) -> Cluster:
    """``nodes`` equal nodes n0, n1, …; ``busy`` as `read_busy` takes it. Raises UsageError."""
    if not 1 <= nodes <= _MOST_NODES:
        raise UsageError(f"{nodes}", where="--nodes", expected=f"1 to {_MOST_NODES}")
    names = [f"n{i}" for i in range(nodes)]
    held = read_busy(busy, names, profile)
    made = tuple(_node(name, i, profile, held.get(name, Held())) for i, name in enumerate(names))
    return Cluster(made, rules, constrain_devices)


def _node(name: str, index: int, profile: NodeProfile, held: Held) -> Node:
    return Node(name, index, profile, frozenset(held.cores), frozenset(held.gpus))


def explain(submit: str, steps: Sequence[str], cluster: Cluster) -> Explanation:
    """What ``submit`` and the ``steps`` of its script give each task.

    A step may hold several commands, with ``;`` or ``&`` as in a script. Raises UsageError for a line
    that is no command of Slurm.
    """
    try:
        first = _one(submit)
        # Together, as in a script: a wait or an & of one step concerns the next.
        lines = _steps("\n".join(steps)) if any(step.strip() for step in steps) else []
        if first.command == "salloc" and first.program[:1] == ("srun",):
            lines[:0] = _steps(shlex.join(first.program))
    except RejectedError as error:
        return Explanation((), error.message, ())
    if first.command == "srun" and lines:
        raise UsageError(
            "a step of an srun that is a job of its own",
            where="--step",
            expected="steps with sbatch or salloc only",
        )
    found = predict(first, lines, cluster)
    said = advised(found, Job(first, lines, cluster))
    return Explanation(
        found.tasks,
        found.rejected,
        tuple(one.text for one in said if not one.info),
        tuple(one.text for one in said if one.info),
    )


def _one(submit: str) -> CommandLine:
    lines = read_command_lines(submit, where="--submit")
    if len(lines) != 1:
        raise UsageError(
            f"{len(lines)} commands", where="--submit", expected="one srun, sbatch or salloc"
        )
    return lines[0]


def _steps(step: str) -> list[CommandLine]:
    lines = read_command_lines(step, where="--step")
    for line in lines:
        if line.command != "srun":
            raise UsageError(line.command, where="--step", expected="srun …")
    return lines
