"""What a pipeline's ranks send each other, and when each posts it so that nothing locks up. Pure.

A schedule says what each rank computes; between its actions the rank posts sends and receives::

    rank 0   F0.0  send F0.0  F0.1  send F0.1             recv B1.0  B0.0
    rank 1              recv F0.0  F1.0  B1.0  send B1.0  recv F0.1  F1.1  B1.1 ...

All actions and messages are put into one order that respects what needs what (an action stands where a
simulated clock starts it, a message where its sender has it ready), and every rank's program is its part
of that order. Then whichever is first and not yet done, both its ranks have come to it: nothing locks up,
even if every send and every receive blocks, as NCCL's do on one stream (``locked_up`` tries exactly that).
Programs that send as soon as they can and receive as late as they must do lock up: in 1f1b two neighbours
send to each other at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.trainers.plans.bubble import StageTimes, needed_by, simulate
from clusterlab.trainers.plans.schedules import Action, Actions


@dataclass(frozen=True, slots=True)
class Message:
    """What ``made`` computed, from rank ``source`` to rank ``target`` along ``pp``: x for the next stage
    after a forward, the gradient of x for the one before after a backward.
    """

    made: Action
    source: int
    target: int

    @property
    def taker(self) -> Action:
        """The action that needs it."""
        made = self.made
        return Action(made.kind, made.stage + (1 if made.kind == "F" else -1), made.micro_batch)


Step = Action | Message
Program = tuple[Step, ...]
"""What a rank does, in order: it computes actions, posts messages (of which it is source or target)."""


def message_of(action: Action, pp: int, stages: int) -> Message | None:
    """What follows from ``action`` to another rank, if anything."""
    if action.kind == "W" or pp == 1:
        return None
    other = action.stage + (1 if action.kind == "F" else -1)
    return Message(action, action.stage % pp, other % pp) if 0 <= other < stages else None


def programs(lists: Sequence[Actions]) -> tuple[Program, ...]:
    """Each rank's, of the schedule ``lists``."""
    pp = len(lists)
    stages = 1 + max(action.stage for actions in lists for action in actions)
    # Any times give an order without lockup; the usual ones give one that holds nobody up: a backward is two
    # matrix products for a forward's one, B and W are one each.
    split = any(action.kind == "W" for action in lists[0])
    timeline = simulate(lists, [StageTimes(1, 1 if split else 2, 1)] * stages)
    ordered: list[tuple[tuple[float, int, int], Step, tuple[int, ...]]] = []
    for rank, done in enumerate(timeline.ranks):
        for place, run in enumerate(done):
            ordered.append(((run.start, 1, place), run.action, (rank,)))
            message = message_of(run.action, pp, stages)
            if message is not None:
                at = (run.end, 0, rank)
                ordered.append((at, message, (message.source, message.target)))
    ordered.sort(key=lambda one: one[0])
    found: list[list[Step]] = [[] for _ in lists]
    for _, step, ranks in ordered:
        for rank in ranks:
            found[rank].append(step)
    return tuple(tuple(program) for program in found)


def locked_up(given: Sequence[Program]) -> list[str]:
    """Where each rank stands still if every message blocks both ranks until both have come to it; empty: all
    programs end. An action whose input has not come is a standstill too.
    """
    stages = 1 + max(s.stage for program in given for s in program if isinstance(s, Action))
    at = [0] * len(given)
    came: set[Action] = set()
    moved = True
    while moved:
        moved = False
        for rank, program in enumerate(given):
            while at[rank] < len(program):
                step = program[at[rank]]
                if isinstance(step, Message):
                    other = step.target if rank == step.source else step.source
                    theirs = given[other][at[other] : at[other] + 1]
                    if theirs != (step,):
                        break
                    at[other] += 1
                    came.add(step.taker)
                elif step not in came and _sender_of(step, len(given), stages) is not None:
                    break
                at[rank] += 1
                moved = True
    return [
        f"rank {rank} at {program[at[rank]]}"
        for rank, program in enumerate(given)
        if at[rank] < len(program)
    ]


def _sender_of(action: Action, pp: int, stages: int) -> Action | None:
    """The action on another rank that ``action`` needs a message of, if any."""
    needs = needed_by(action, stages)
    return next((need for need in needs if need.stage % pp != action.stage % pp), None)
