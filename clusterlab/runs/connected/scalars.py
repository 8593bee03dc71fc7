"""A run as scalars by step, for what draws training curves: of a training its steps, of a sweep its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from clusterlab.core.errors import UsageError
from clusterlab.core.stepping import StepLine
from clusterlab.report.data import ReportData
from clusterlab.report.files.prometheus import label_value
from clusterlab.runs.connected.prom_run import Series, run_series
from clusterlab.runs.connected.prom_train import exposed_us, parts_us

SIZE = "size_bytes"
STEP = "train_step"

_OF_POINTS = {
    "clusterlab_busbw_gbs": "busbw_GBps",
    "clusterlab_busbw_predicted_gbs": "busbw_predicted_GBps",
    "clusterlab_busbw_bound_gbs": "busbw_bound_GBps",
    "clusterlab_busbw_ratio": "busbw_ratio",
    "clusterlab_collective_time_seconds": "time_s",
}
_ALWAYS_SAID = ("collective", "dtype", "place")
_NEVER_SAID = ("cluster", "fabric", SIZE)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value. ``axis`` says what ``step`` counts: ``train_step``, or ``size_bytes`` of a sweep's curve.
    ``group``/``name`` is what it is called; ``unix`` when it was measured, seconds.
    """

    axis: str
    step: int
    group: str
    name: str
    value: float
    unix: float

    @property
    def tag(self) -> str:
        """``busbw_GBps/all_reduce float32 in_place``."""
        return f"{self.group}/{self.name}"


def scalars_of(data: ReportData) -> list[Scalar]:
    """All of a run. Raises UsageError for one that holds neither steps nor points."""
    found = [*_of_steps(data.steps), *_of_sizes(data)]
    if not found:
        raise UsageError(
            "holds neither steps nor points", where=str(data.run.path),
            expected="a run of `clusterlab train` or `clusterlab bench`",
        )  # fmt: skip
    return found


def _of_steps(steps: Sequence[StepLine]) -> Iterator[Scalar]:
    for step in steps:
        at = datetime.fromisoformat(step.time_utc).timestamp()
        for group, name, value in _step_values(step):
            if value is not None:
                yield Scalar(STEP, step.step, group, name, value, at)


def _step_values(step: StepLine) -> Iterator[tuple[str, str, float | None]]:
    yield "train", "loss", step.loss
    yield "train", "step_ms", step.step_us / 1e3
    yield (
        "train",
        "step_predicted_ms",
        None if step.predicted_us is None else step.predicted_us / 1e3,
    )
    yield "train", "exposed_share", exposed_us(step) / step.step_us if step.step_us > 0 else None
    yield "train", "memory_bytes", float(step.memory_bytes)
    for part, us in parts_us(step).items():
        yield "step_parts_ms", part, us / 1e3
    for axis, us in step.exposed_us.items():
        yield "exposed_ms", _word(axis), us / 1e3


def _of_sizes(data: ReportData) -> Iterator[Scalar]:
    series = run_series(data)
    said = _telling(series.points)
    for one in sorted(series.points, key=lambda point: point.size_bytes):
        name = " ".join(_word(one.labels[label]) for label in said if label in one.labels)
        for sample in one.samples:
            if (group := _OF_POINTS.get(sample.name)) is not None:
                yield Scalar(SIZE, one.size_bytes, group, name, sample.value, series.ended)


def _telling(points: Sequence[Series]) -> list[str]:
    """The labels that a curve is named by: some always, and those in which the run's curves differ."""
    held: dict[str, set[str]] = {}
    for one in points:
        for label, value in one.labels.items():
            held.setdefault(label, set()).add(value)
    return [
        label
        for label, found in held.items()
        if label not in _NEVER_SAID and (label in _ALWAYS_SAID or len(found) > 1)
    ]


def _word(text: str) -> str:
    """A slash would make a group of its own."""
    return label_value(text).replace("/", "_")
