"""A training on the page: where a step's time goes, its collectives, a step over time, what experts took."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import CollectiveSummary, ExpertLoad, StepLedger, StepLine
from clusterlab.report.console.experts import expert_lines
from clusterlab.report.console.steps import training_lines
from clusterlab.report.error_matrix import Cell
from clusterlab.report.numbers import NOT_KNOWN, percent, three_digits
from clusterlab.report.page.pairs import HeatMap, shaded
from clusterlab.report.page.timeline import Timeline, timeline
from clusterlab.report.series import series_chart
from clusterlab.report.text import plain

MOST_STEPS = 100
"""Steps with a line in the table: of more the first and the last."""

MOST_EXPERTS = 64
MOST_EP_RANKS = 32

KIND_HEADS = (
    *("Collective", "Axis", "Ranks", "Size", "Phase", "A step", "Time µs", "Algbw GB/s"),
    *("Busbw GB/s", "Exposed µs", "Hidden µs", "Predicted µs"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One of several amounts that make a whole; ``width`` from 0 to 100 of the largest."""

    name: str
    amount: str
    share: str
    width: float


@dataclass(frozen=True, slots=True)
class TrainingView:
    """``left_out`` says which steps the table does not list."""

    said: tuple[str, ...]
    parts: tuple[Bar, ...]
    chart: str | None
    heads: tuple[str, ...]
    steps: tuple[tuple[str, ...], ...]
    left_out: str
    kinds: tuple[tuple[str, ...], ...]
    kind_heads: tuple[str, ...]
    covers: str
    timeline: Timeline | None
    experts: tuple[Bar, ...]
    expert_lines: tuple[str, ...]
    rows_between: HeatMap | None


def training_view(
    steps: Sequence[StepLine],
    kinds: Sequence[CollectiveSummary],
    loads: Sequence[ExpertLoad],
    covers: str,
    ledgers: Sequence[StepLedger],
) -> TrainingView | None:
    """What the page shows of a training; None where no step was finished."""
    if not steps:
        return None
    axes = tuple(dict.fromkeys(axis for step in steps for axis in step.exposed_us))
    pipeline = any(step.bubble_us for step in steps)
    listed = list(steps)
    if len(listed) > MOST_STEPS:
        listed = [*listed[: MOST_STEPS // 2], *listed[-MOST_STEPS // 2 :]]
    left = len(steps) - len(listed)
    predicted = steps[-1].predicted_us
    return TrainingView(
        said=tuple(plain(line) for line in training_lines(steps, ())),
        parts=_parts(steps, axes),
        chart=series_chart(
            [(float(step.step), step.step_us / 1e3) for step in steps],
            name="steps",
            label=f"Time of each of {len(steps)} steps, the slowest rank's",
            across="step",
            up="ms",
            reference=None if predicted is None else ("predicted", predicted / 1e3),
        ),
        heads=_heads(axes, pipeline=pipeline),
        steps=tuple(_step(step, axes, pipeline=pipeline) for step in listed),
        left_out=f"{left} steps between are not listed; steps.jsonl has all." if left else "",
        kinds=tuple(_kind(one) for one in kinds if one.phase != "handshake"),
        kind_heads=KIND_HEADS,
        covers=plain(covers),
        timeline=timeline(ledgers, "timeline"),
        experts=_experts(loads),
        expert_lines=tuple(line for line in expert_lines(loads)[:3] if line),
        rows_between=_between(loads),
    )


def _parts(steps: Sequence[StepLine], axes: Sequence[str]) -> tuple[Bar, ...]:
    """Where the mean step's time goes; the first step of an attempt warms up."""
    warm = [s for s in steps[1:] if s.attempt == steps[0].attempt] or list(steps)
    amounts = {
        "data": [s.data_us for s in warm],
        "forward": [s.forward_us for s in warm],
        "backward": [s.backward_us for s in warm],
        **{f"exposed communication, {a}": [s.exposed_us.get(a, 0.0) for s in warm] for a in axes},
        "pipeline bubble": [s.bubble_us for s in warm],
        "optimizer": [s.optimizer_us for s in warm],
        "other, and waiting for the slowest rank": [s.other_us for s in warm],
    }
    means = {plain(name): statistics.fmean(some) for name, some in amounts.items()}
    return _bars({name: us for name, us in means.items() if us > 0}, 1e3)


def _bars(amounts: dict[str, float], unit: float) -> tuple[Bar, ...]:
    whole, most = sum(amounts.values()) or 1.0, max(amounts.values(), default=1.0) or 1.0
    return tuple(
        Bar(name, three_digits(n / unit), percent(n / whole), round(100 * n / most, 1))
        for name, n in amounts.items()
    )


def _heads(axes: Sequence[str], *, pipeline: bool) -> tuple[str, ...]:
    bubble = ["Bubble"] if pipeline else []
    exposed = [f"Exposed {plain(axis)}" for axis in axes]
    first = ["Step", "Loss", "Step ms", "Slowest rank", "Data", "Forward", "Backward"]
    return (*first, *exposed, *bubble, "Optimizer", "Other", "Memory")


def _step(step: StepLine, axes: Sequence[str], *, pipeline: bool) -> tuple[str, ...]:
    loss = NOT_KNOWN if step.loss is None else f"{step.loss:.4f}"
    times = [step.data_us, step.forward_us, step.backward_us]
    times += [step.exposed_us.get(axis, 0.0) for axis in axes]
    times += [*([step.bubble_us] if pipeline else []), step.optimizer_us, step.other_us]
    return (
        str(step.step),
        loss,
        three_digits(step.step_us / 1e3),
        str(step.slowest_rank),
        *(three_digits(us / 1e3) for us in times),
        human_size(step.memory_bytes),
    )


def _kind(one: CollectiveSummary) -> tuple[str, ...]:
    least = "≥" if one.at_most else ""
    return (
        plain(one.op),
        plain(one.axis),
        str(one.ranks),
        ("~" if one.least_bytes is not None else "") + human_size(one.size_bytes),
        plain(one.phase),
        f"{one.count:g}",
        three_digits(one.time_us),
        least + three_digits(one.algbw_GBps),
        least + three_digits(one.busbw_GBps),
        three_digits(one.exposed_us),
        three_digits(one.hidden_us),
        three_digits(one.predicted_us),
    )


def _experts(loads: Sequence[ExpertLoad]) -> tuple[Bar, ...]:
    if not loads:
        return ()
    tokens = [
        sum(column) / len(loads) for column in zip(*(one.tokens for one in loads), strict=True)
    ]
    named = {f"expert {i}": n for i, n in enumerate(tokens)}
    if len(named) > MOST_EXPERTS:
        busiest = sorted(named.items(), key=lambda item: -item[1])
        named = dict(busiest[: MOST_EXPERTS // 2] + busiest[-MOST_EXPERTS // 2 :])
    return _bars(named, 1.0)


def _between(loads: Sequence[ExpertLoad]) -> HeatMap | None:
    """Rows from each rank to each in forward, a step, beside the median of those that leave their rank."""
    if not loads or not 1 < len(loads[0].rows_bytes) <= MOST_EP_RANKS:
        return None
    ranks = range(len(loads[0].rows_bytes))
    mean = [[statistics.fmean(one.rows_bytes[a][b] for one in loads) for b in ranks] for a in ranks]
    usual = statistics.median(mean[a][b] for a in ranks for b in ranks if a != b) or 1.0
    return HeatMap(
        "Rows from each rank along ep (down) to each (across) in forward, a step",
        tuple(map(str, ranks)),
        tuple(
            (str(a), tuple(_amount(mean[a][b], usual, own=a == b) for b in ranks)) for a in ranks
        ),
    )


def _amount(size: float, usual: float, *, own: bool) -> Cell:
    shade = "" if own or size <= 0 else shaded(size, size / usual).shade
    return Cell(human_size(round(size)), shade)
