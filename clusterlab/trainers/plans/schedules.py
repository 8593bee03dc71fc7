"""Pipeline schedules: for each rank the list of its actions, in order. Pure.

A stage is some consecutive layers; stage s sits on rank s mod pp, so chunk c of rank r is stage c · pp + r.
``F3.1`` below is micro-batch 1's forward on stage 3; p ranks, m micro-batches, v chunks::

    gpipe         all forwards, then all backwards                       m forwards are kept
    1f1b          rank r: p − r − 1 forwards ahead, then one forward,    p − r
                  one backward in turn
    interleaved   1f1b over v stages a rank: p micro-batches on one      2(p − r − 1) + (v − 1)p + 1,
                  chunk, then the same on the next                       each of 1/v of the layers
    zero_bubble   1f1b with each backward in two: B the gradient of      p
                  the input, which the stage before waits for, and W
                  that of the weights, which nobody does: W fills gaps

Sources: Huang et al. 2019, "GPipe"; Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
GPU Clusters", sections 2.2.1 (1f1b) and 2.2.2 (interleaved); Qi et al. 2023, "Zero Bubble Pipeline
Parallelism", ZB-H1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clusterlab.trainers.config import Setup

Kind = Literal["F", "B", "W"]


@dataclass(frozen=True, slots=True)
class Action:
    """``F`` forward, ``B`` backward, of ``micro_batch`` on ``stage``. In a schedule with ``W`` (gradients of
    weights), B computes the gradient of the stage's input only.
    """

    kind: Kind
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.stage}.{self.micro_batch}"


Actions = tuple[Action, ...]


def schedule(name: str, pp: int, micro_batches: int, chunks: int = 1) -> tuple[Actions, ...]:
    """Each rank's actions. ``chunks`` above 1 only for ``interleaved``; ``micro_batches`` at least ``pp``."""
    if name == "gpipe":
        return tuple(_gpipe(rank, micro_batches) for rank in range(pp))
    if name == "interleaved":
        return tuple(_interleaved(rank, pp, micro_batches, chunks) for rank in range(pp))
    split = splits_backward(name)
    found = []
    for rank in range(pp):
        own = [(rank, m) for m in range(micro_batches)]
        found.append(_in_turn(own, own, ahead=pp - rank - 1, lag=rank if split else None))
    return tuple(found)


def schedule_of(setup: Setup) -> tuple[Actions, ...]:
    """Of a training run."""
    train = setup.train
    return schedule(train.schedule, setup.mesh.pp, train.micro_batches, train.chunks)


def splits_backward(name: str) -> bool:
    """Whether a schedule's B leaves the weights' gradients to W."""
    return name == "zero_bubble"


def layers_of(stage: int, setup: Setup) -> range:
    """Those of a stage."""
    each = setup.model.layers // setup.stages
    return range(stage * each, (stage + 1) * each)


def stages_of(pp_index: int, setup: Setup) -> range:
    """Those of a rank, by its place along ``pp``."""
    return range(pp_index, setup.stages, setup.mesh.pp)


def group_sizes(pp: int, micro_batches: int) -> list[int]:
    """How many micro-batches an interleaved schedule takes through one chunk before the next: ``pp`` each,
    what is left over spread among the groups, for with fewer than ``pp`` the first rank would wait.
    """
    groups = max(1, micro_batches // pp)
    return [micro_batches // groups + (i < micro_batches % groups) for i in range(groups)]


def _gpipe(rank: int, micro_batches: int) -> Actions:
    forwards = tuple(Action("F", rank, m) for m in range(micro_batches))
    return forwards + tuple(Action("B", a.stage, a.micro_batch) for a in forwards)


def _interleaved(rank: int, pp: int, micro_batches: int, chunks: int) -> Actions:
    sizes = group_sizes(pp, micro_batches)
    forwards: list[tuple[int, int]] = []
    backwards: list[tuple[int, int]] = []
    first = 0
    for size in sizes:
        group = range(first, first + size)
        forwards += [(chunk * pp + rank, m) for chunk in range(chunks) for m in group]
        backwards += [(chunk * pp + rank, m) for chunk in reversed(range(chunks)) for m in group]
        first += size
    return _in_turn(forwards, backwards, ahead=_ahead(rank, pp, micro_batches, chunks), lag=None)


def _ahead(rank: int, pp: int, micro_batches: int, chunks: int) -> int:
    """Forwards before the first backward, less one. The last rank's first backward is of its last chunk, so
    it first forwards all chunks before. Each rank before it is a hop of forward and one of backward further
    away; with one chunk the next rank's backward comes while this one still has a forward to do.
    """
    hops = pp - rank - 1
    return hops if chunks == 1 else 2 * hops + (chunks - 1) * max(group_sizes(pp, micro_batches))


def _in_turn(
    forwards: list[tuple[int, int]],
    backwards: list[tuple[int, int]],
    *,
    ahead: int,
    lag: int | None,
) -> Actions:
    """``ahead`` forwards, then a forward and a backward in turn while there are forwards, then the remaining
    backwards. ``lag``: each W follows so many backwards after its own (None: there are none).

    ZB-H1's lag is the rank: then every rank keeps as much as 1f1b's first, and W's are at hand for the gaps.
    """
    found = [Action("F", *at) for at in forwards[:ahead]]
    for i, at in enumerate(backwards):
        found += [Action("F", *next_at) for next_at in forwards[ahead + i : ahead + i + 1]]
        found.append(Action("B", *at))
        if lag is not None and i >= lag:
            found.append(Action("W", *backwards[i - lag]))
    if lag is not None:
        found += [Action("W", *at) for at in backwards[max(0, len(backwards) - lag) :]]
    return tuple(found)
