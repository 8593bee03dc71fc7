"""A training run's steps as series for Prometheus."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from clusterlab.core.stepping import StepLine
from clusterlab.report.data import ReportData
from clusterlab.report.files.prometheus import Sample
from clusterlab.runs.connected.prom_labels import Labels, Where, labels

_US = 1e-6
_MOST_AXES = 16


def warm_steps(steps: Sequence[StepLine]) -> list[StepLine]:
    """Without the first of each attempt, which warms up; all where nothing else is there."""
    seen: set[int] = set()
    warm = []
    for step in steps:
        if step.attempt in seen:
            warm.append(step)
        seen.add(step.attempt)
    return warm or list(steps)


def exposed_us(step: StepLine) -> float:
    """Communication of a step that nothing hid, over all axes."""
    return sum(step.exposed_us.values())


def parts_us(step: StepLine) -> dict[str, float]:
    """What a step's time is made of beside communication."""
    return {
        "data": step.data_us,
        "forward": step.forward_us,
        "backward": step.backward_us,
        "bubble": step.bubble_us,
        "optimizer": step.optimizer_us,
        "other": step.other_us,
    }


def training_series(data: ReportData, where: Where) -> list[tuple[Labels, tuple[Sample, ...]]]:
    """One group of samples with its labels; none of a run that did not train."""
    if not data.steps:
        return []
    held = data.run.info.configuration
    train = held.get("train")
    of = labels(
        cluster=where.cluster,
        fabric=where.fabric,
        backend=held.get("backend"),
        strategy=held.get("strategy", "unknown"),
        dtype=train.get("dtype") if isinstance(train, Mapping) else None,
        ranks=where.ranks,
        nodes=where.nodes,
    )
    return [(of, tuple(_samples(data.steps, of)))]


def _samples(steps: Sequence[StepLine], of: Labels) -> list[Sample]:
    warm, last = warm_steps(steps), steps[-1]
    whole = sum(step.step_us for step in warm)
    exposed = sum(map(exposed_us, warm))
    values = {
        "clusterlab_train_step_seconds": statistics.median(step.step_us for step in warm) * _US,
        "clusterlab_train_step_predicted_seconds": (
            None if last.predicted_us is None else last.predicted_us * _US
        ),
        "clusterlab_train_exposed_ratio": exposed / whole if whole > 0 else None,
        "clusterlab_train_loss": last.loss,
        "clusterlab_train_steps": float(len(steps)),
        "clusterlab_train_memory_bytes": float(max(step.memory_bytes for step in steps)),
    }
    samples = [Sample(name, of, value) for name, value in values.items() if value is not None]
    samples += [
        Sample(
            "clusterlab_train_step_part_seconds",
            {**of, "part": part},
            statistics.fmean(parts_us(step)[part] for step in warm) * _US,
        )
        for part in parts_us(last)
    ]
    axes = list(dict.fromkeys(axis for step in warm for axis in step.exposed_us))[:_MOST_AXES]
    samples += [
        Sample(
            "clusterlab_train_exposed_seconds",
            labels(**of, axis=axis),
            statistics.fmean(step.exposed_us.get(axis, 0.0) for step in warm) * _US,
        )
        for axis in axes
    ]
    return samples
