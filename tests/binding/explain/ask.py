"""A question to the predictor in one line."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.binding.explain.explaining import Explanation, cluster_of, explain
from clusterlab.binding.explain.predict import Task
from clusterlab.binding.explain.profile import NodeProfile, lab_profile
from clusterlab.binding.explain.versions import slurm_rules


def ask(
    submit: str,
    *steps: str,
    nodes: int = 4,
    version: str = "22.05",
    constrain_devices: bool = False,
    busy: Sequence[str] = (),
    profile: NodeProfile | None = None,
) -> Explanation:
    """What ``submit`` and ``steps`` give on ``nodes`` equal nodes, the lab's unless said."""
    cluster = cluster_of(
        profile or lab_profile(),
        nodes,
        slurm_rules(version),
        constrain_devices=constrain_devices,
        busy=busy,
    )
    return explain(submit, steps, cluster)


def masks(found: Explanation) -> list[str | None]:
    """CUDA_VISIBLE_DEVICES, task after task."""
    return [task.cuda_visible_devices for task in found.tasks]


def by_node(tasks: Sequence[Task]) -> dict[str, list[int]]:
    """Task ids of each node."""
    placed: dict[str, list[int]] = {}
    for task in tasks:
        placed.setdefault(task.node, []).append(task.procid)
    return placed
