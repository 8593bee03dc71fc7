"""The tables of what real invocations gave each task, and how a prediction is scored against them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clusterlab.binding.explain.explaining import Explanation, cluster_of, explain
from clusterlab.binding.explain.profile import lab_profile
from clusterlab.binding.explain.versions import slurm_rules

# The second job of the group that has two was measured while the first held these.
BESIDE_THE_FIRST_JOB = ["n0:gpu=0-2"]


@dataclass
class Invocation:
    """The rows of one invocation."""

    group: str
    label: str
    rows: list[dict[str, str]] = field(default_factory=list)

    @property
    def rejected(self) -> bool:
        return self.rows[0]["procid"] == ""

    @property
    def lines(self) -> tuple[str, list[str]]:
        first = self.rows[0]
        return first["submit_line"], [first["step_line"]] if first["step_line"] else []


def invocations(table: Path) -> list[Invocation]:
    """The invocations of a table; of the sample, which holds both, with the table in their group."""
    found: dict[tuple[str, str], Invocation] = {}
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["group"], f"{row.get('table', '')} {row['label']}".strip()
            found.setdefault(key, Invocation(*key)).rows.append(row)
    return list(found.values())


def predicted(invocation: Invocation, *, constrain_devices: bool) -> Explanation:
    second = invocation.group.startswith("7") and invocation.label.endswith("second")
    cluster = cluster_of(
        lab_profile(),
        int(invocation.rows[0]["nodes_up"]),
        slurm_rules("22.05"),
        constrain_devices=constrain_devices,
        busy=BESIDE_THE_FIRST_JOB if second else [],
    )
    return explain(*invocation.lines, cluster)


def wrong_tasks(invocation: Invocation, found: Explanation) -> Iterator[dict[str, str]]:
    """Rows whose node, local rank, mask or cores are not as predicted."""
    tasks = {(task.step, task.procid): task for task in found.tasks}
    for row in invocation.rows:
        task = tasks.get((int(row["step"]), int(row["procid"])))
        mask = row["CUDA_VISIBLE_DEVICES"] if row["cvd_is_set"] == "True" else None
        measured = row["nodename"], int(row["localid"]), mask, row["affinity"]
        if task is None or measured != (
            task.node,
            task.localid,
            task.cuda_visible_devices,
            task.cpus,
        ):
            yield row
