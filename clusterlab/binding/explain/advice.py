"""Advice that was tried: a cure is printed only where the changed job is predicted to be better.

A cure helps if Slurm still takes the job, every step has as many tasks on as many nodes as before, the
problem is gone, and no other problem is new or has grown.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from clusterlab.binding.explain.command_line import CommandLine
from clusterlab.binding.explain.predict import Cluster, Prediction, predict
from clusterlab.binding.explain.surprise import Cure, Surprise, changed
from clusterlab.binding.explain.surprises import surprises

_MOST_TRIES = 24  # predictions of one answer
_MOST_TASKS = 4096  # of a job for which cures are tried


@dataclass(frozen=True, slots=True)
class Job:
    """The lines of a job and the cluster it is for."""

    submit: CommandLine
    steps: Sequence[CommandLine]
    cluster: Cluster


def advised(found: Prediction, job: Job) -> list[Surprise]:
    """The surprises of ``found``, each with the first of its cures that helps, if any, and its words."""
    before = surprises(found, job.cluster)
    tries = _MOST_TRIES if len(found.tasks) <= _MOST_TASKS else 0
    answer = []
    for one in before:
        cure = None
        for each in one.cures[: max(tries, 0)]:
            tries -= 1
            if helps(each, one, found, job):
                cure = each
                break
        text = one.text if cure is None else f"{one.text}; {cure.words}"
        answer.append(replace(one, text=text, cures=() if cure is None else (cure,)))
    return answer


def helps(cure: Cure, problem: Surprise, found: Prediction, job: Job) -> bool:
    """Whether the job with ``cure`` is rid of ``problem`` and has no other that it had not."""
    after = predict(*changed(cure, job.submit, job.steps), job.cluster)
    if after.rejected is not None or (after.queued and not found.queued):
        return False
    if _shape(after) != _shape(found):
        return False
    had = _by_kind(surprises(found, job.cluster))
    has = _by_kind(surprises(after, job.cluster))
    gone = problem.kind not in has
    return gone and all(kind in had and about <= had[kind] for kind, about in has.items())


def _shape(found: Prediction) -> dict[int, tuple[int, int]]:
    """Tasks and nodes of each step."""
    steps = {task.step for task in found.tasks}
    mine = {step: [task for task in found.tasks if task.step == step] for step in steps}
    return {step: (len(tasks), len({t.node for t in tasks})) for step, tasks in mine.items()}


def _by_kind(said: Sequence[Surprise]) -> dict[str, frozenset[Hashable]]:
    kinds: dict[str, frozenset[Hashable]] = {}
    for one in said:
        kinds[one.kind] = kinds.get(one.kind, frozenset()) | one.about
    return kinds
