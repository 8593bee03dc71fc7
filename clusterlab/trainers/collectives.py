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
    times: dict[CollectiveKey, list[tuple[float, bool]]] = {}
    exposed: dict[CollectiveKey, float] = {}
    for ledger in ledgers:
        for entry in ledger.entries:
            key = key_of(entry)
            times.setdefault(key, []).append((entry.end_us - entry.start_us, entry.at_most))
            exposed[key] = exposed.get(key, 0.0) + exposed_us(entry, ledger.spans)
    steps = max(1, len(ledgers))
    return [
        _summary(key, took, exposed[key], steps, (predicted_us or {}).get(key))
        for key, took in times.items()
    ]


def _summary(
    key: CollectiveKey,
    calls: list[tuple[float, bool]],
    exposed: float,
    steps: int,
    predicted: float | None,
) -> CollectiveSummary:
    op, axis, ranks, size_bytes, dtype, phase = key
    took = [us for us, _ in calls]
    # A span of no length would be an infinite rate; the clocks' own grain is about this.
    median = max(statistics.median(took), 1e-3)
    algbw = algbw_GBps(size_bytes, median)
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
        at_most=any(late for _, late in calls),
    )
