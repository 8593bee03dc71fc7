"""Training steps as lines: a table that grows while a run runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import CollectiveSummary, ExpertLoad, StepLine
from clusterlab.report.console.experts import expert_lines
from clusterlab.report.numbers import NOT_KNOWN, percent, three_digits

_WIDTH = 9


def step_head(axes: Sequence[str], *, pipeline: bool) -> list[str]:
    """Two lines above the steps; ``axes`` are those that communicate."""
    names = ["loss", "step", "data", "forward", "backward", *axes]
    names += [*(["bubble"] if pipeline else []), "optimizer", "other", "memory"]
    units = ["", "(ms)"] + ["(ms)"] * (len(names) - 3) + [""]
    return [_line("step", names), _line("", units)]


def step_text(step: StepLine, axes: Sequence[str], *, pipeline: bool) -> str:
    """One step."""
    loss = NOT_KNOWN if step.loss is None else f"{step.loss:.4f}"
    times = [step.step_us, step.data_us, step.forward_us, step.backward_us]
    times += [step.exposed_us.get(axis, 0.0) for axis in axes]
    times += [*([step.bubble_us] if pipeline else []), step.optimizer_us, step.other_us]
    cells = [loss, *(three_digits(us / 1e3) for us in times), human_size(step.memory_bytes)]
    return _line(str(step.step), cells)


def _line(first: str, cells: Sequence[str]) -> str:
    return f"{first:>6}" + "".join(f" {cell:>{_WIDTH}}" for cell in cells)


def training_lines(
    steps: Sequence[StepLine],
    collectives: Sequence[CollectiveSummary],
    loads: Sequence[ExpertLoad] = (),
    covers: str = "",
) -> list[str]:
    """What a training run says in the end: its losses and times, what experts took, and each kind of
    collective of rank 0, in the steps that ``covers`` names.
    """
    if not steps:
        return []
    finite = [step.loss for step in steps if step.loss is not None]
    losses = f"loss {finite[0]:.4f} to {finite[-1]:.4f}" if finite else "no finite loss"
    # The first step of an attempt warms up.
    warm = [s for s in steps[1:] if s.attempt == steps[0].attempt] or list(steps)
    median = statistics.median(s.step_us for s in warm)
    lines = [
        f"{len(steps)} steps, {losses}, median {three_digits(median / 1e3)} ms: {_shares(warm)}"
    ]
    predicted = steps[-1].predicted_us
    if predicted is not None:
        ratio = f"measured {median / predicted:.2f} of it"
        lines.append(f"predicted {three_digits(predicted / 1e3)} ms a step: {ratio}")
    return [*lines, *collective_lines(collectives, covers), *expert_lines(loads)]


def _shares(steps: Sequence[StepLine]) -> str:
    whole = sum(step.step_us for step in steps) or 1.0
    axes = dict.fromkeys(axis for step in steps for axis in step.exposed_us)
    parts = {
        "data": sum(s.data_us for s in steps),
        "forward": sum(s.forward_us for s in steps),
        "backward": sum(s.backward_us for s in steps),
        **{f"exposed {a}": sum(s.exposed_us.get(a, 0.0) for s in steps) for a in axes},
        "bubble": sum(s.bubble_us for s in steps),
        "optimizer": sum(s.optimizer_us for s in steps),
        "other": sum(s.other_us for s in steps),
    }
    return ", ".join(f"{name} {percent(us / whole)}" for name, us in parts.items() if us > 0)


_COLUMNS = (
    ("collective", 14), ("axis", 7), ("ranks", 5), ("size", 9), ("phase", 10), ("a step", 6),
    ("us", 9), ("algbw", 8), ("busbw", 8), ("exposed", 9), ("hidden", 9), ("predicted", 9),
)  # fmt: skip


def collective_lines(collectives: Sequence[CollectiveSummary], covers: str = "") -> list[str]:
    """A table: a call's median time and rates in GB/s, exposed and hidden time of a step in µs.

    Of what took that long at most the rates are bounds. Handshakes carry no data.
    """
    if not collectives:
        return []
    rows = [[name for name, _ in _COLUMNS]]
    rows += [
        [
            one.op, one.axis, str(one.ranks), _size(one), one.phase, f"{one.count:g}",
            three_digits(one.time_us), _rate(one, one.algbw_GBps), _rate(one, one.busbw_GBps),
            three_digits(one.exposed_us), three_digits(one.hidden_us), three_digits(one.predicted_us),
        ]
        for one in collectives
        if one.phase != "handshake"
    ]  # fmt: skip
    title = [f"collectives of rank 0 in {covers}:"] if covers else []
    return ["", *title, *(_row(row) for row in rows)]


def _size(one: CollectiveSummary) -> str:
    """Of calls whose sizes differ their mean."""
    return ("~" if one.least_bytes is not None else "") + human_size(one.size_bytes)


def _rate(one: CollectiveSummary, GBps: float) -> str:
    return ("≥" if one.at_most else "") + three_digits(GBps)


def _row(cells: Sequence[str]) -> str:
    pairs = zip(cells, _COLUMNS, strict=True)
    texts = [f"{cell:<{w}}" if name in _WORDS else f"{cell:>{w}}" for cell, (name, w) in pairs]
    return " ".join(texts).rstrip()


_WORDS = ("collective", "axis", "phase")
