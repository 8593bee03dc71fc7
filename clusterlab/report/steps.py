"""Training steps as lines: a table that grows while a run runs."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import StepLine
from clusterlab.report.numbers import NOT_KNOWN, three_digits

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
