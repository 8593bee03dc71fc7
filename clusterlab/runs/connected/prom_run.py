"""One run as series for Prometheus: its points, collectives, itself, its steps. It judges nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.report.data import ReportData
from clusterlab.report.files.prometheus import Sample
from clusterlab.runs.connected.prom_labels import (
    Labels,
    Where,
    info_labels,
    kind_of,
    labels,
    where_of,
)
from clusterlab.runs.connected.prom_train import training_series
from clusterlab.verdict.judge import judge_row

_US = 1e-6


@dataclass(frozen=True, slots=True)
class Series:
    """Samples that have their ``labels`` in common: the latest run that has such replaces them together.

    ``verdict``: None where nothing is judged; ``wrong`` counts wrong elements; ``size_bytes`` orders points.
    """

    labels: Labels
    samples: tuple[Sample, ...]
    verdict: Verdict | None = None
    wrong: int = 0
    size_bytes: int = 0

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        """What makes two of them the same."""
        return frozenset(self.labels.items())


@dataclass(frozen=True, slots=True)
class RunSeries:
    """What one run says. ``ended``: seconds since 1970. ``succeeded``: exit code 0 and no wrong data."""

    run_id: str
    ended: float
    succeeded: bool
    run: Series
    points: tuple[Series, ...]
    collectives: tuple[Series, ...]
    training: tuple[Series, ...]


def run_series(data: ReportData, *, cluster: str | None = None) -> RunSeries:
    """The series of a run that was read and judged. ``cluster`` names it where Slurm does not."""
    where = where_of(data, cluster)
    rows = [row for row in data.judged_rows if row.beside is None]
    info = data.run.info
    ended = _ended(data)
    code = info.attempts[-1].exit_code if info.attempts else None
    training = training_series(data, where)
    return RunSeries(
        run_id=info.run_id,
        ended=ended,
        succeeded=code == 0 and not data.run_verdict.wrong,
        run=_run(data, where, ended, code),
        points=tuple(_points(rows, where)),
        collectives=tuple(_collectives(data, rows, where, ended)),
        training=tuple(Series(*one) for one in training),
    )


def verdict_samples(name: str, of: Labels, verdict: Verdict) -> list[Sample]:
    """A series a state, 1 for the one that holds: what Prometheus has for enumerations."""
    return [
        Sample(name, {**of, "verdict": state.value}, float(state == verdict)) for state in Verdict
    ]


def _points(rows: Iterable[Row], where: Where) -> Iterator[Series]:
    found: dict[frozenset[tuple[str, str]], tuple[Labels, list[Row]]] = {}
    for row in rows:
        of = _point_labels(row, where)
        found.setdefault(frozenset(of.items()), (of, []))[1].append(row)
    for names, same in found.values():
        row = min(same, key=_standing)
        values = _point_values(row, same)
        yield Series(
            names,
            tuple(Sample(name, names, v) for name, v in values.items() if v is not None),
            judge_row(row).verdict,
            sum(one.wrong or 0 for one in same),
            row.size_bytes,
        )


def _standing(row: Row) -> tuple[float, float]:
    """The row that speaks for those beside it: the one furthest below its prediction, else the slowest."""
    known = row.ratio is not None and math.isfinite(row.ratio)
    return (row.ratio if known and row.ratio is not None else math.inf, row.busbw_GBps)


def _point_labels(row: Row, where: Where) -> dict[str, str]:
    return labels(
        cluster=where.cluster,
        fabric=where.fabric,
        backend=row.backend,
        collective=row.collective,
        op=row.op,
        dtype=row.dtype,
        timing=row.timing,
        place="in_place" if row.in_place else "out_of_place",
        uneven=row.uneven.partition(":")[0] if row.uneven else None,
        group_kind=where.group_kind(row),
        ranks=row.world_size,
        nodes=where.nodes_of(row),
        size_bytes=row.size_bytes,
    )


def _point_values(row: Row, same: Sequence[Row]) -> dict[str, float | None]:
    checked = [one.wrong for one in same if one.wrong is not None]
    several = row.ranks is not None
    return {
        "clusterlab_busbw_gbs": row.busbw_GBps,
        "clusterlab_algbw_gbs": row.algbw_GBps,
        "clusterlab_busbw_predicted_gbs": row.predicted_busbw_GBps,
        "clusterlab_busbw_predicted_low_gbs": _busbw_at(row, row.predicted_high_us),
        "clusterlab_busbw_predicted_high_gbs": _busbw_at(row, row.predicted_low_us),
        "clusterlab_busbw_bound_gbs": row.bound_busbw_GBps,
        "clusterlab_busbw_ratio": row.ratio,
        "clusterlab_collective_time_seconds": row.time_us_loop * _US,
        "clusterlab_collective_time_median_seconds": row.time_us_p50 * _US,
        "clusterlab_collective_time_predicted_seconds": _seconds(row.predicted_time_us),
        "clusterlab_point_wrong_elements": float(sum(checked)) if checked else None,
        "clusterlab_point_rows": float(len(same)) if several else None,
        "clusterlab_point_busbw_median_gbs": (
            statistics.median(one.busbw_GBps for one in same) if several else None
        ),
    }


def _busbw_at(row: Row, time_us: float | None) -> float | None:
    """The busbw of the predicted point, were it to take ``time_us``."""
    whole, of = row.predicted_busbw_GBps, row.predicted_time_us
    return whole * of / time_us if whole is not None and of and time_us else None


def _seconds(time_us: float | None) -> float | None:
    return None if time_us is None else time_us * _US


def _collectives(
    data: ReportData, rows: Sequence[Row], where: Where, ended: float
) -> Iterator[Series]:
    summaries = (*data.run_verdict.summaries, *data.run_verdict.partial)
    for one in summaries:
        row = next(
            (
                row
                for row in rows
                if row.collective == one.collective and (row.ranks is not None) == one.of_some_ranks
            ),
            None,
        )
        if row is None:
            continue
        of = labels(
            cluster=where.cluster,
            fabric=where.fabric,
            backend=row.backend,
            collective=one.collective,
            group_kind=where.group_kind(row),
            ranks=where.ranks,
            nodes=where.nodes,
        )
        samples = verdict_samples("clusterlab_collective_verdict", of, one.judged.verdict)
        samples += [
            Sample("clusterlab_collective_points", {**of, "verdict": verdict.value}, count)
            for verdict, count in one.counts.items()
        ]
        samples.append(Sample("clusterlab_collective_measured_timestamp_seconds", of, ended))
        yield Series(of, tuple(samples), one.judged.verdict, one.wrong)


def _run(data: ReportData, where: Where, ended: float, code: int | None) -> Series:
    of = labels(
        cluster=where.cluster,
        fabric=where.fabric,
        kind=kind_of(data),
        ranks=where.ranks,
        nodes=where.nodes,
    )
    verdict = data.judged.verdict
    values = {
        "clusterlab_run_exit_code": None if code is None else float(code),
        "clusterlab_run_end_timestamp_seconds": ended,
        "clusterlab_run_duration_seconds": _duration(data),
        "clusterlab_run_measured_points": float(len(data.rows)),
        "clusterlab_run_planned_points": data.run.info.planned_points,
        "clusterlab_run_wrong_elements": _wrong(data),
        "clusterlab_run_gpus": _gpus(data),
    }
    samples = [Sample("clusterlab_run_info", {**of, **info_labels(data)}, 1.0)]
    samples += verdict_samples("clusterlab_run_verdict", of, verdict)
    samples += [Sample(name, of, value) for name, value in values.items() if value is not None]
    counted: dict[tuple[str, str], int] = {}
    for found in data.findings:
        key = (found.code, found.severity)
        counted[key] = counted.get(key, 0) + 1
    samples += [
        Sample("clusterlab_run_findings", labels(**of, code=code, severity=severity), count)
        for (code, severity), count in counted.items()
    ]
    return Series(of, tuple(samples), verdict, data.run_verdict.wrong)


def _wrong(data: ReportData) -> float | None:
    """Absent where no data was checked: 0 would say that it was right."""
    found = data.run_verdict
    return float(found.wrong) if found.points > found.unchecked else None


def _gpus(data: ReportData) -> float | None:
    if data.placement is None:
        return None
    return float(len({(one.host, one.gpu) for one in data.placement.ranks if one.gpu}))


def _ended(data: ReportData) -> float:
    """When the last attempt ended; of one that did not, the last that was heard of it."""
    info = data.run.info
    texts = [info.created_utc, *(one.started_utc for one in info.attempts)]
    texts += [one.ended_utc for one in info.attempts if one.ended_utc]
    if not (info.attempts and info.attempts[-1].ended_utc):
        texts += [row.time_utc for row in data.rows] + [step.time_utc for step in data.steps]
    return max((at for text in texts if (at := _unix(text)) is not None), default=0.0)


def _duration(data: ReportData) -> float | None:
    attempts = data.run.info.attempts
    last = attempts[-1] if attempts else None
    if last is None or last.ended_utc is None:
        return None
    began, ended = _unix(last.started_utc), _unix(last.ended_utc)
    return None if began is None or ended is None else max(0.0, ended - began)


def _unix(text: str) -> float | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
