"""A pipeline's step and how much of it each rank idles: simulated, by formula, and measured. Pure.

One ruler for all three: the step lasts from the first forward on any rank to the end of the last backward on
any rank; what a rank does not compute of that is its bubble; a fraction is of the step::

    gpipe, p = 2, m = 2        rank 0   |F0|F1|  .  .  |B0|B1|     step 6, each rank computes 4
                               rank 1   |  |F0|F1|B0|B1|  |        bubble 2 of 6
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.stepping import Span
from clusterlab.trainers.plans.schedules import Action, Actions, group_sizes


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Of one micro-batch on one stage, in any unit. With a W, ``backward`` is B's without it. ``send``: until
    what the stage made is with a neighbour on another rank; the sender goes on meanwhile.
    """

    forward: float
    backward: float
    weight: float = 0.0
    send: float = 0.0

    def of(self, action: Action) -> float:
        """How long ``action`` takes."""
        return {"F": self.forward, "B": self.backward, "W": self.weight}[action.kind]


@dataclass(frozen=True, slots=True)
class Run:
    """An action when it ran."""

    action: Action
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """A step: every rank's actions in order."""

    ranks: tuple[tuple[Run, ...], ...]

    @property
    def step(self) -> float:
        """From the first action's start to the last one's end, over all ranks."""
        runs = [run for rank in self.ranks for run in rank]
        return max(run.end for run in runs) - min(run.start for run in runs)

    @property
    def bubbles(self) -> tuple[float, ...]:
        """How long each rank idles."""
        return tuple(self.step - sum(run.end - run.start for run in rank) for rank in self.ranks)

    @property
    def fraction(self) -> float:
        """The bubble's share of the step, mean over the ranks."""
        return sum(self.bubbles) / len(self.ranks) / self.step


def simulate(lists: Sequence[Actions], times: Sequence[StageTimes]) -> Timeline:
    """Every rank does its ``lists`` in order, each action as soon as what it needs is there.

    ``times`` by stage. Raises ValueError where ranks wait for each other in a circle, or for an action that
    no list has.
    """
    pp = len(lists)
    end: dict[Action, float] = {}
    done: list[list[Run]] = [[] for _ in lists]
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(lists):
            for action in itertools.islice(actions, len(done[rank]), None):
                needs = needed_by(action, len(times))
                if any(need not in end for need in needs):
                    break
                free = done[rank][-1].end if done[rank] else 0.0
                there = [
                    end[need] + (times[need.stage].send if need.stage % pp != rank else 0.0)
                    for need in needs
                ]
                start = max([free, *there])
                end[action] = start + times[action.stage].of(action)
                done[rank].append(Run(action, start, end[action]))
                moved = True
    waiting = [
        f"rank {rank} at {actions[len(runs)]}"
        for rank, (actions, runs) in enumerate(zip(lists, done, strict=True))
        if len(runs) < len(actions)
    ]
    if waiting:
        raise ValueError(f"ranks wait for each other: {', '.join(waiting)}")
    return Timeline(tuple(tuple(runs) for runs in done))


def needed_by(action: Action, stages: int) -> list[Action]:
    """What must be done before ``action``: the stage before's forward; the own forward and the next stage's
    backward; the own backward.
    """
    stage, m = action.stage, action.micro_batch
    if action.kind == "F":
        return [Action("F", stage - 1, m)] if stage else []
    if action.kind == "W":
        return [Action("B", stage, m)]
    after = [Action("B", stage + 1, m)] if stage < stages - 1 else []
    return [Action("F", stage, m), *after]


def bubble_time(name: str, pp: int, times: StageTimes) -> float:
    """How long each rank idles in a step by the closed formula, all stages alike and sending free.

    (p − 1)(F + B) for all but zero_bubble: the way of the first micro-batch to the last rank and of the last
    one's gradient back (Huang et al. 2019, section 2.3; Narayanan et al. 2021, section 2.2; with v chunks a
    stage's F and B are 1/v of a rank's, so it is 1/v of that).

    ZB-H1: (p − 1)(F + B − W) where W ≤ F and W ≤ B (Qi et al. 2023, table 2). A longer W does not fit into
    the gap that it should fill, so of it counts only what does: min(F, B, W). That extension is ours.
    """
    F, B, W = times.forward, times.backward, times.weight
    return (pp - 1) * (F + B - (min(F, B, W) if name == "zero_bubble" else 0.0))


def bubble_fraction(
    name: str, pp: int, micro_batches: int, chunks: int, times: StageTimes
) -> float:
    """``bubble_time`` as a share of the step: (p − 1)/(v m + p − 1) but for zero_bubble."""
    idle = bubble_time(name, pp, times)
    busy = micro_batches * chunks * (times.forward + times.backward + times.weight)
    return idle / (busy + idle)


def kept(actions: Actions) -> int:
    """The most micro-batches' activations that a rank holds at once, each of one stage: from its forward
    until its last backward, W where there is one.
    """
    split = any(action.kind == "W" for action in actions)
    held = most = 0
    for action in actions:
        if action.kind == "F":
            held += 1
        elif action.kind == "W" or not split:
            held -= 1
        most = max(most, held)
    return most


def kept_by_formula(name: str, pp: int, rank: int, micro_batches: int, chunks: int = 1) -> int:
    """``kept`` of a rank in closed form (schedules.py has its sources)."""
    if name == "gpipe":
        return micro_batches
    if name == "interleaved" and chunks > 1:
        ahead = 2 * (pp - rank - 1) + (chunks - 1) * max(group_sizes(pp, micro_batches))
        return min(micro_batches * chunks, ahead + 1)
    return min(micro_batches, pp if name == "zero_bubble" else pp - rank)


def measured(spans: Sequence[Sequence[Span]], begun_us: Sequence[float]) -> list[float]:
    """Each rank's bubble in a step as a share of it, from the ranks' ledgers: ``spans`` of that step, by
    rank, and when each rank's step began by a clock that all share (µs).
    """
    runs = [
        [
            (began + span.start_us, began + span.end_us)
            for span in own
            if span.name in ("forward", "backward")
        ]
        for own, began in zip(spans, begun_us, strict=True)
    ]
    first = min(start for own in runs for start, _ in own)
    last = max(end for own in runs for _, end in own)
    return [1.0 - sum(end - start for start, end in own) / (last - first) for own in runs]
