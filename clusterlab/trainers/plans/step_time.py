"""How long a step takes, predicted, and what it is made of: compute, exposed communication, bubble. Pure.

Every rank along ``pp`` is different, all others are alike: one of each is timed. Calls that nothing hides
lengthen the action in which they are made; hidden ones may only outlast the compute beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterlab.core.stepping import P2P
from clusterlab.trainers.config import Setup
from clusterlab.trainers.mesh import rank_of
from clusterlab.trainers.plans.bubble import StageTimes, simulate
from clusterlab.trainers.plans.compose import plan_of
from clusterlab.trainers.plans.compute import Compute
from clusterlab.trainers.plans.memory import update_elements
from clusterlab.trainers.plans.overlap import exposed_us
from clusterlab.trainers.plans.plan import Plan
from clusterlab.trainers.plans.price import Priced, Prices, Site
from clusterlab.trainers.plans.schedules import (
    layers_of,
    schedule_of,
    splits_backward,
    stages_of,
)
from clusterlab.trainers.plans.sp import held_by
from clusterlab.trainers.plans.work import accumulating, updating, weights_only, work_of

_IN_ACTIONS = ("forward", "backward", "backward_weight")


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """One step of ``plan.rank``, the slowest. ``forward_us`` … ``bubble_us`` and the ``exposed_us`` by axis
    add up to ``step_us``. No step with these computations and bounds of calls is shorter than ``bound_us``.
    """

    setup: Setup
    plan: Plan
    priced: tuple[Priced, ...]
    compute: Compute
    forward_us: float
    backward_us: float
    optimizer_us: float
    exposed_us: Mapping[str, float]
    bubble_us: float
    hidden_us: float
    bound_us: float

    @property
    def compute_us(self) -> float:
        """Forward, backward and update."""
        return self.forward_us + self.backward_us + self.optimizer_us

    @property
    def communication_us(self) -> float:
        """Exposed, of all axes."""
        return sum(self.exposed_us.values())

    @property
    def step_us(self) -> float:
        """From a step's begin to the next."""
        return self.compute_us + self.communication_us + self.bubble_us

    @property
    def tokens_per_s(self) -> float:
        """Of all ranks together."""
        return self.setup.train.batch * self.setup.model.sequence / self.step_us * 1e6

    @property
    def TFLOPs(self) -> float:
        """Matrix products of this rank over the step."""
        return self.plan.flops / self.step_us / 1e6


@dataclass(frozen=True, slots=True)
class _Rank:
    """One place along ``pp``. ``stages``: µs of compute of an action on each stage (forward, backward,
    weights), ``inline``: exposed µs by axis of one action of each kind.
    """

    plan: Plan
    priced: tuple[Priced, ...]
    stages: Mapping[int, tuple[float, float, float]]
    inline: Mapping[str, Mapping[str, float]]
    tail: Mapping[str, float]
    hidden: Mapping[str, float]
    send_us: float
    accumulate_us: float
    optimizer_us: float


def predict_step(setup: Setup, site: Site, compute: Compute) -> StepPrediction:
    """Of ``setup`` (checked) on ``site`` with GPUs or cores that compute like ``compute``."""
    prices = Prices(setup, site)
    ranks = [_timed(setup, prices, compute, pp) for pp in range(setup.mesh.pp)]
    busy = [_busy_us(setup, rank) for rank in ranks]
    alone = _ends_us(setup, ranks, busy, sending=False)
    ends = _ends_us(setup, ranks, busy, sending=True)
    slowest = max(range(len(ranks)), key=lambda pp: ends[pp] + _after(ranks[pp]))
    # Sends may shift a schedule's gaps so that it ends no later: a delay is never a gain.
    delay = max(0.0, ends[slowest] - alone[slowest])
    idle = max(0.0, ends[slowest] - delay - busy[slowest])
    return _prediction(setup, compute, ranks[slowest], pipeline_us=delay, bubble_us=idle)


def _timed(setup: Setup, prices: Prices, compute: Compute, pp: int) -> _Rank:
    train, rank = setup.train, rank_of(0, 0, pp, setup.mesh)
    plan = plan_of(setup, rank)
    priced = prices.of(plan.calls, rank)
    split = splits_backward(train.schedule) and setup.mesh.pp > 1
    stages = {}
    for stage in stages_of(pp, setup):
        work = work_of(setup, layers_of(stage, setup))
        weights = compute.time_us(weights_only(work)) if split else 0.0
        backward = compute.time_us(work.backward)
        stages[stage] = compute.time_us(work.forward), max(0.0, backward - weights), weights
    actions = train.micro_batches * len(stages)
    inline: dict[str, dict[str, float]] = {phase: defaultdict(float) for phase in _IN_ACTIONS}
    tail: dict[str, float] = defaultdict(float)
    hides = compute.behind  # on cores communication takes the same ones
    for one in priced:
        call = one.call
        if call.op in P2P or (call.hidden and hides):
            continue
        # What fewer calls than micro-batches make, the last backward does: nothing runs after it.
        if call.phase in _IN_ACTIONS and call.count >= train.micro_batches:
            inline[call.phase][call.axis] += one.total_us / actions
        else:
            tail[call.axis] += one.total_us
    held = held_by(setup, rank)
    elements = update_elements(setup, rank)
    updates = compute.time_us(updating(setup, elements))
    adds = compute.time_us(accumulating(setup, elements, len(held)))
    sends = [one.each_us for one in priced if one.call.op in P2P]
    return _Rank(
        plan, priced, stages, inline, tail,
        hidden=_hidden(setup, priced, stages) if hides else {},
        send_us=max(sends, default=0.0),
        accumulate_us=adds * (train.micro_batches - 1),
        optimizer_us=updates,
    )  # fmt: skip


def _hidden(
    setup: Setup, priced: Sequence[Priced], stages: Mapping[int, tuple[float, float, float]]
) -> dict[str, float]:
    """What hidden calls leave exposed, by axis. Those that every micro-batch makes hide behind each."""
    each = setup.train.data_parallel in ("zero2", "fsdp")
    found: dict[str, float] = defaultdict(float)
    for phase in ("forward", "backward"):
        calls = [one for one in priced if one.call.hidden and one.call.phase == phase]
        if not calls:
            continue
        beside = sum(
            forward if phase == "forward" else backward + weights
            for forward, backward, weights in stages.values()
        )
        rounds = setup.train.micro_batches if each else 1

        before = [one for one in calls if one.call.op == "all_gather"]
        after = [one for one in calls if one.call.op != "all_gather"]
        extra = exposed_us(beside, _each_us(before, rounds), _each_us(after, rounds))
        total = sum(one.total_us for one in calls)
        for one in calls:
            found[one.call.axis] += rounds * extra * one.total_us / total if total else 0.0
    return found


def _each_us(priced: Sequence[Priced], rounds: int) -> list[float]:
    """Of every call of one round."""
    return [one.each_us for one in priced for _ in range(max(1, one.call.count // rounds))]


def _stage_times(setup: Setup, ranks: Sequence[_Rank], *, sending: bool) -> list[StageTimes]:
    found = []
    for stage in range(setup.stages):
        rank = ranks[stage % setup.mesh.pp]
        forward, backward, weight = rank.stages[stage]
        inline = {phase: sum(axes.values()) for phase, axes in rank.inline.items()}
        found.append(
            StageTimes(
                forward + inline["forward"],
                backward + inline["backward"],
                weight + inline["backward_weight"],
                rank.send_us if sending else 0.0,
            )
        )
    return found


def _busy_us(setup: Setup, rank: _Rank) -> float:
    """Of a rank's forwards and backwards with what nothing hides."""
    compute = sum(sum(times) for times in rank.stages.values())
    inline = sum(sum(axes.values()) for axes in rank.inline.values()) * len(rank.stages)
    return setup.train.micro_batches * (compute + inline)


def _ends_us(
    setup: Setup, ranks: Sequence[_Rank], busy: Sequence[float], *, sending: bool
) -> list[float]:
    """When each rank has done its last action."""
    if setup.mesh.pp == 1:
        return list(busy)
    timeline = simulate(schedule_of(setup), _stage_times(setup, ranks, sending=sending))
    return [runs[-1].end for runs in timeline.ranks]


def _after(rank: _Rank) -> float:
    """µs beside the pipeline's."""
    return (
        sum(rank.tail.values()) + sum(rank.hidden.values()) + rank.accumulate_us + rank.optimizer_us
    )


def _prediction(
    setup: Setup, compute: Compute, rank: _Rank, *, pipeline_us: float, bubble_us: float
) -> StepPrediction:
    M = setup.train.micro_batches
    exposed: dict[str, float] = defaultdict(float)
    for axes in rank.inline.values():
        for axis, us in axes.items():
            exposed[axis] += us * M * len(rank.stages)
    for axes in (rank.tail, rank.hidden):
        for axis, us in axes.items():
            exposed[axis] += us
    if setup.mesh.pp > 1:
        exposed["pp"] += pipeline_us
    forward = M * sum(times[0] for times in rank.stages.values())
    backward = M * sum(times[1] + times[2] for times in rank.stages.values()) + rank.accumulate_us
    hidden = [one for one in rank.priced if one.call.hidden and compute.behind]
    inline = [
        one for one in rank.priced
        if one.call.op not in P2P and not (one.call.hidden and compute.behind)
    ]  # fmt: skip
    computing = forward + backward + rank.optimizer_us
    return StepPrediction(
        setup=setup,
        plan=rank.plan,
        priced=rank.priced,
        compute=compute,
        forward_us=forward,
        backward_us=backward,
        optimizer_us=rank.optimizer_us,
        exposed_us=dict(exposed),
        bubble_us=bubble_us,
        hidden_us=max(0.0, sum(one.total_us for one in hidden) - sum(rank.hidden.values())),
        bound_us=max(computing + _bounds_us(inline), _bounds_us(hidden)),
    )


def _bounds_us(priced: Sequence[Priced]) -> float:
    return sum(one.call.count * one.prediction.bound.time_us for one in priced)
