"""What the collectives of some steps took, by kind: count, bandwidth, exposed and hidden time. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from clusterlab.core.collectives import algbw_GBps, busbw_factor
from clusterlab.core.stepping import CollectiveSummary, Entry, StepLedger
from clusterlab.trainers.breakdown import exposed_us

CollectiveKey = tuple[str, str, int, int, str, str]
"""op, axis, ranks of the group, size_bytes, dtype, phase."""


def key_of(entry: Entry) -> CollectiveKey:
    """Which kind ``entry`` is."""
    return (
        entry.op, entry.axis, len(entry.ranks), entry.size_bytes, entry.dtype, entry.phase
    )  # fmt: skip


def summarise(
    ledgers: Sequence[StepLedger], predicted_us: Mapping[CollectiveKey, float] | None = None
) -> list[CollectiveSummary]:
    """Of one rank's ``ledgers``, a step each, in the order that kinds first come in."""
    times: dict[CollectiveKey, list[tuple[float, bool, int]]] = {}
    exposed: dict[CollectiveKey, float] = {}
    for ledger in ledgers:
        for entry in ledger.entries:
            key = _row_of(key_of(entry))
            took_us = entry.end_us - entry.start_us
            times.setdefault(key, []).append((took_us, entry.at_most, entry.size_bytes))
            exposed[key] = exposed.get(key, 0.0) + exposed_us(entry, ledger.spans)
    steps = max(1, len(ledgers))
    known = _by_row(predicted_us or {})
    return [_summary(key, took, exposed[key], steps, known.get(key)) for key, took in times.items()]


def _row_of(key: CollectiveKey) -> CollectiveKey:
    """The row of a kind: calls whose sizes follow from routing share one, of size 0."""
    op, axis, ranks, size_bytes, dtype, phase = key
    return op, axis, ranks, 0 if op.endswith("_v") else size_bytes, dtype, phase


def _by_row(predicted_us: Mapping[CollectiveKey, float]) -> dict[CollectiveKey, float]:
    """What is predicted of a row: the mean of its sizes'."""
    rows: dict[CollectiveKey, list[float]] = {}
    for key, us in predicted_us.items():
        rows.setdefault(_row_of(key), []).append(us)
    return {key: statistics.fmean(us) for key, us in rows.items()}


def _summary(
    key: CollectiveKey,
    calls: list[tuple[float, bool, int]],
    exposed: float,
    steps: int,
    predicted: float | None,
) -> CollectiveSummary:
    op, axis, ranks, _, dtype, phase = key
    sizes = [size for _, _, size in calls]
    size_bytes = round(statistics.fmean(sizes))
    differ = min(sizes) != max(sizes)
    took = [us for us, _, _ in calls]
    # A span of no length would be an infinite rate; the clocks' own grain is about this.
    median = max(statistics.median(took), 1e-3)
    # Of different sizes all bytes over all of their time: the median call need not be of the mean size.
    mean = max(statistics.fmean(took), 1e-3)
    algbw = algbw_GBps(size_bytes, mean if differ else median)
    name = "send" if op == "recv" else op
    return CollectiveSummary(
        op=op,
        axis=axis,
        ranks=ranks,
        size_bytes=size_bytes,
        dtype=dtype,
        phase=phase,
        count=len(took) / steps,
        time_us=median,
        algbw_GBps=algbw,
        busbw_GBps=algbw * busbw_factor(name, ranks),
        exposed_us=exposed / steps,
        hidden_us=max(0.0, sum(took) - exposed) / steps,
        predicted_us=predicted,
        at_most=any(late for _, late, _ in calls),
        least_bytes=min(sizes) if differ else None,
        most_bytes=max(sizes) if differ else None,
    )
