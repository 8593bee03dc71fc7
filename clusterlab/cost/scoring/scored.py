"""Measured points with what was predicted for each. Pure.

A point whose machines, collective or settings cannot be predicted keeps the reason: it counts as a miss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from clusterlab.core.collectives import COLLECTIVES, collective
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.placement import Placement
from clusterlab.core.suggest import unknown
from clusterlab.cost.predict import predict as predict_one
from clusterlab.cost.routing import routing_of
from clusterlab.cost.scoring.asked import Asked, variables_of, version_of
from clusterlab.cost.scoring.fabrics import fabric_for, settings_for
from clusterlab.cost.scoring.machine import SystemDescription, description_of
from clusterlab.cost.scoring.measured import MeasuredPoint
from clusterlab.cost.types import Prediction, PredictRequest, one_group
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.place import place_on

Predict = Callable[[PredictRequest], Prediction]

LATENCY_ROWS = 4
"""The smallest rows of a published table that give it its latency; of other tables the smallest size."""

_UNSAID_DTYPE = "float32"
_NOTHING_ASKED = Asked()


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """``predicted_us`` and ``library_us`` (what NCCL's own model says for the same choice) are None
    where there is no prediction; ``reason`` says why. ``bound_us`` is what nothing beats, ``low_us`` to
    ``high_us`` the interval, where the prediction has one; ``limited_by`` the resource that sets the
    time. ``remarks`` are of the NCCL variables that count for this row.
    """

    point: MeasuredPoint
    predicted_us: float | None
    library_us: float | None = None
    bound_us: float | None = None
    algorithm: str = ""
    reason: str = ""
    limited_by: str = ""
    remarks: tuple[str, ...] = ()
    low_us: float | None = None
    high_us: float | None = None

    @property
    def in_interval(self) -> bool | None:
        """Whether the measurement lies in the prediction's interval; None without one."""
        if self.low_us is None or self.high_us is None:
            return None
        return self.low_us <= self.point.time_us <= self.high_us

    @property
    def error(self) -> float | None:
        """predicted over measured time, less 1; None without a prediction."""
        return None if self.predicted_us is None else self.predicted_us / self.point.time_us - 1

    @property
    def library_error(self) -> float | None:
        """The same for NCCL's own model; None where it has none for this collective."""
        return None if self.library_us is None else self.library_us / self.point.time_us - 1

    @property
    def beats_bound(self) -> bool:
        """The measurement is faster than the bound calls possible: the bound or the fabric is wrong."""
        return self.bound_us is not None and self.point.time_us < self.bound_us


def predict_points(
    points: Sequence[MeasuredPoint],
    predict: Predict = predict_one,
    *,
    fabric: Fabric | None = None,
    asked: Asked = _NOTHING_ASKED,
    progress: Callable[[int, int], None] | None = None,
) -> list[ScoredPoint]:
    """Predict every point, in order. ``fabric`` takes the place of what the vocabulary makes of each;
    ``asked`` is said of all.

    ``progress(done, all)`` is called after each point. Nothing is dropped: what cannot be predicted is
    returned with its reason.
    """
    scored = []
    for done, (point, request) in enumerate(requests(points, fabric, asked), start=1):
        if isinstance(request, ClusterlabError):
            scored.append(ScoredPoint(point, None, reason=str(request)))
        else:
            scored.append(score_one(point, request, predict))
        if progress is not None:
            progress(done, len(points))
    return scored


def requests(
    points: Iterable[MeasuredPoint], fabric: Fabric | None = None, asked: Asked = _NOTHING_ASKED
) -> Iterator[tuple[MeasuredPoint, PredictRequest | ClusterlabError]]:
    """Each point with what is asked for it, or why nothing can be; machines are made once."""
    where: dict[SystemDescription, _Place | ClusterlabError] = {}
    for point in points:
        description = description_of(point)
        if description not in where:
            where[description] = _placed(description, fabric)
        place = where[description]
        if isinstance(place, ClusterlabError):
            yield point, place
            continue
        try:
            yield point, _request(point, place, asked)
        except UsageError as error:
            yield point, error


def request_for(
    point: MeasuredPoint, fabric: Fabric | None = None, asked: Asked = _NOTHING_ASKED
) -> PredictRequest:
    """What is asked for a point: its fabric, ranks, NCCL version, and what the run forced.

    Raises UsageError for machines, collectives or element types that are not known.
    """
    place = _placed(description_of(point), fabric)
    if isinstance(place, ClusterlabError):
        raise place
    return _request(point, place, asked)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the ranks of a table are, and the variables that its description implies."""

    fabric: Fabric
    placement: Placement
    settings: Mapping[str, str]


def _placed(description: SystemDescription, fabric: Fabric | None) -> _Place | ClusterlabError:
    try:
        found = fabric or fabric_for(description)
        settings = {} if fabric is not None else settings_for(description)
        nodes = description.n_nodes or 1
        per_host = -(-description.n_ranks // nodes) if fabric is None and nodes > 1 else None
        if per_host is not None:
            per_host = min(per_host, len(found.on_host(found.hosts[0], "gpu")))
        return _Place(
            found, place_on(found, description.n_ranks, ranks_per_host=per_host), settings
        )
    except UsageError as error:
        return error


def _request(point: MeasuredPoint, place: _Place, asked: Asked) -> PredictRequest:
    name = collective(point.collective).name
    if name not in COLLECTIVES:
        raise unknown("collective", name, COLLECTIVES)
    return PredictRequest(
        fabric=place.fabric,
        groups=one_group(place.placement),
        collective=name,
        size_bytes=point.size_bytes,
        dtype=dtype(point.dtype or _UNSAID_DTYPE).name,
        in_place=bool(point.in_place),
        backend="nccl",
        issue=asked.issue,
        library_version=version_of(point, asked),
        overrides=variables_of(point, asked, place.settings),
        routing=routing_of(place.fabric, "nccl", asked.routing),
        calibration=asked.calibration,
    )


def score_one(
    point: MeasuredPoint, request: PredictRequest, predict: Predict = predict_one
) -> ScoredPoint:
    """``point`` with what ``predict`` says to ``request``, or why it cannot."""
    try:
        prediction = predict(request)
    except UsageError as error:
        return ScoredPoint(point, None, reason=str(error))
    interval = prediction.interval
    return ScoredPoint(
        point,
        predicted_us=prediction.time_us,
        library_us=prediction.library_time_us,
        bound_us=prediction.bound.time_us,
        algorithm="/".join(w for w in (prediction.algorithm, prediction.protocol) if w),
        limited_by=f"{prediction.bottleneck.name} ({prediction.bottleneck.utilisation:.0%})",
        remarks=tuple(n for n in prediction.notes if n.startswith(tuple(request.overrides))),
        low_us=interval.low_us if interval else None,
        high_us=interval.high_us if interval else None,
    )


def by_table(scored: Sequence[ScoredPoint]) -> dict[str, list[ScoredPoint]]:
    """The points of each table, in order of size."""
    tables: defaultdict[str, list[ScoredPoint]] = defaultdict(list)
    for one in scored:
        tables[one.point.table].append(one)
    return {name: sorted(found, key=_order) for name, found in tables.items()}


def with_one_latency(scored: Sequence[ScoredPoint]) -> list[ScoredPoint]:
    """What would be predicted had one latency been measured on each table's machines.

    The median of measured less predicted time over a table's smallest rows is added to all its other
    predictions (never to less than the bound); those rows are left out. NCCL's own figures are treated
    alike. A table that has no other rows is left out as a whole.
    """
    kept = []
    for rows in by_table(scored).values():
        first = _latency_rows(rows)
        ours = _offset([(r.point.time_us, r.predicted_us) for r in first])
        library = _offset([(r.point.time_us, r.library_us) for r in first])
        kept += [
            replace(
                row,
                predicted_us=_shifted(row.predicted_us, ours, row.bound_us),
                library_us=_shifted(row.library_us, library, row.bound_us),
            )
            for row in rows[len(first) :]
        ]
    return kept


def _latency_rows(rows: Sequence[ScoredPoint]) -> Sequence[ScoredPoint]:
    if rows[0].point.published:
        return rows[:LATENCY_ROWS]
    smallest = rows[0].point.size_bytes
    return [r for r in rows if r.point.size_bytes == smallest]


def _offset(pairs: Sequence[tuple[float, float | None]]) -> float:
    known = [measured - predicted for measured, predicted in pairs if predicted is not None]
    return median(known) if known else 0.0


def _shifted(time_us: float | None, offset_us: float, bound_us: float | None) -> float | None:
    return None if time_us is None else max(time_us + offset_us, bound_us or 0.0)


def _order(one: ScoredPoint) -> tuple[int, str, bool, int]:
    point = one.point
    return point.size_bytes, point.dtype, bool(point.in_place), point.line
