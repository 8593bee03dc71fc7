"""The one row schema: prediction and measurement of the same point, side by side.

Units are in the names: ``_bytes``, ``_us`` (microseconds), ``_GBps`` (1e9 B/s). A field that is not
known is null, never 0. Change a field, and SCHEMA_VERSION goes up.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from clusterlab.core.collectives import (
    BufferShape,
    algbw_GBps,
    buffer_shape,
    busbw_factor,
    collective,
)
from clusterlab.core.dtypes import Dtype
from clusterlab.core.errors import UsageError
from clusterlab.core.measurement import Measurement
from clusterlab.core.suggest import reject_unknown_keys

SCHEMA_VERSION = 4

MOST_RANK = (1 << 31) - 1
"""Ranks are C ints in NCCL and MPI."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing to predict and to measure.

    ``requested_bytes`` is what the user asked for, ``size_bytes`` what is moved after padding.
    ``count`` is nccl-tests' count column (elements). ``op`` is None unless the collective reduces,
    ``root`` None unless it has a root. ``ranks`` are the ranks that take part, in the order that the
    collective counts them (a ``send`` is from the first to the second); None: all ranks of the run.
    ``world_size`` is how many they are. ``timing`` is the way it is called: ``eager`` (torch's calls, one
    after the other), ``graph`` (replays of a CUDA graph), ``direct`` (NCCL's own calls). ``beside`` names
    what runs at the same time (``compute``, or another collective), ``uneven`` how the parts of an
    all_to_all_v differ; None where there is nothing to say.
    """

    collective: str
    dtype: str
    op: str | None
    root: int | None
    in_place: bool
    world_size: int
    ranks: tuple[int, ...] | None
    requested_bytes: int
    size_bytes: int
    count: int
    padded: bool
    timing: str = "eager"
    beside: str | None = None
    uneven: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two points the same point (used to resume a sweep)."""
        return dataclasses.astuple(self)


def make_point(
    name: str,
    requested_bytes: int,
    dtype: Dtype,
    world_size: int,
    *,
    op: str | None = None,
    root: int | None = None,
    in_place: bool = False,
    ranks: tuple[int, ...] | None = None,
    timing: str = "eager",
    beside: str | None = None,
    uneven: str | None = None,
) -> Point:
    """The point for ``requested_bytes`` of ``name``; op and root are dropped where they mean nothing.

    ``ranks``, where only some of the run's ranks take part, are ``world_size`` many.
    """
    if ranks is not None and not len(ranks) == len(set(ranks)) == world_size:
        raise UsageError(f"{ranks}", where="ranks", expected=f"{world_size} different ranks")
    what = collective(name)
    shape: BufferShape = buffer_shape(name, requested_bytes, dtype, world_size)
    return Point(
        collective=what.name,
        dtype=dtype.name,
        op=(op or "sum") if what.reduces else None,
        root=(root or 0) if what.rooted else None,
        in_place=in_place,
        world_size=world_size,
        ranks=ranks,
        requested_bytes=requested_bytes,
        size_bytes=shape.size_bytes,
        count=shape.count,
        padded=shape.padded,
        timing=timing,
        beside=beside,
        uneven=uneven,
    )


@dataclass(frozen=True, slots=True)
class Predicted:
    """Plain values of a prediction, as a row keeps them. None: not predicted, or not known.

    ``coverage`` is the share of points (0 to 1) that ``low_us`` to ``high_us`` is known to hold. ``doubt``
    says why it may not hold this one: outside what was calibrated, ranks elsewhere than predicted.
    """

    time_us: float
    bound_time_us: float
    algorithm: str
    protocol: str | None
    bottleneck: str
    low_us: float | None
    high_us: float | None
    provenance: str
    coverage: float | None = None
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of records.jsonl: a point, what was predicted for it and what it took.

    ``algbw_GBps`` and ``busbw_GBps`` follow from ``time_us_loop`` as in nccl-tests. ``wrong_rank`` to
    ``wrong_got`` describe the first wrong element.
    """

    collective: str
    dtype: str
    op: str | None
    root: int | None
    in_place: bool
    world_size: int
    ranks: tuple[int, ...] | None
    requested_bytes: int
    size_bytes: int
    count: int
    padded: bool
    timing: str
    beside: str | None
    uneven: str | None
    backend: str
    iterations: int
    warmup: int
    time_us_loop: float
    time_us_p50: float
    time_us_min: float
    time_us_max: float
    time_us_p95: float
    time_us_p99: float | None
    cv: float
    p50_low_us: float | None
    p50_high_us: float | None
    samples: int | None
    outliers: int | None
    rank_skew_us: float | None
    arrival_skew_us: float | None
    stopped_by: str
    calls_per_graph: int | None
    aggregated: int
    blocking: bool
    memory: str | None
    gpu_clock_mhz: float | None
    gpu_temp_c: float | None
    throttled: str | None
    algbw_GBps: float
    busbw_GBps: float
    wrong: int | None
    wrong_rank: int | None
    wrong_index: int | None
    wrong_expected: float | None
    wrong_got: float | None
    predicted_time_us: float | None
    predicted_low_us: float | None
    predicted_high_us: float | None
    predicted_coverage: float | None
    predicted_doubt: str | None
    predicted_busbw_GBps: float | None
    bound_time_us: float | None
    bound_busbw_GBps: float | None
    ratio: float | None  # measured over predicted busbw
    algorithm: str | None
    protocol: str | None
    bottleneck: str | None
    provenance: str | None
    library_version: str | None
    driver_version: str | None
    library_algorithm: str | None
    library_protocol: str | None
    library_channels: int | None
    library_time_us: float | None
    transport: str | None
    gdr: bool | None
    attempt: int
    time_utc: str  # when the point was finished, ISO 8601

    @property
    def point(self) -> Point:
        """The point this row is about."""
        return Point(**{f: getattr(self, f) for f in Point.__dataclass_fields__})


def make_row(
    point: Point,
    measured: Measurement,
    predicted: Predicted | None,
    *,
    backend: str,
    attempt: int,
    time_utc: str,
) -> Row:
    """Join one point's prediction and measurement."""
    factor = busbw_factor(point.collective, point.world_size)
    algbw = algbw_GBps(point.size_bytes, measured.time_us_loop)
    first = measured.first_wrong
    p, said = predicted, measured.said
    # One rank alone may have nothing to do: a time of 0 has no bandwidth.
    timed = p is not None and p.time_us > 0
    return Row(
        **dataclasses.asdict(point),
        backend=backend,
        iterations=measured.iterations,
        warmup=measured.warmup,
        time_us_loop=measured.time_us_loop,
        time_us_p50=measured.time_us_p50,
        time_us_min=measured.time_us_min,
        time_us_max=measured.time_us_max,
        time_us_p95=measured.time_us_p95,
        time_us_p99=measured.time_us_p99,
        cv=measured.cv,
        p50_low_us=measured.p50_low_us,
        p50_high_us=measured.p50_high_us,
        samples=measured.samples,
        outliers=measured.outliers,
        rank_skew_us=measured.rank_skew_us,
        arrival_skew_us=measured.arrival_skew_us,
        stopped_by=measured.stopped_by,
        calls_per_graph=measured.calls_per_graph,
        aggregated=measured.aggregated,
        blocking=measured.blocking,
        memory=measured.memory,
        gpu_clock_mhz=measured.conditions.gpu_clock_mhz,
        gpu_temp_c=measured.conditions.gpu_temp_c,
        throttled=measured.conditions.throttled,
        algbw_GBps=algbw,
        busbw_GBps=algbw * factor,
        wrong=measured.wrong,
        wrong_rank=first.rank if first else None,
        wrong_index=first.index if first else None,
        wrong_expected=first.expected if first else None,
        wrong_got=first.got if first else None,
        predicted_time_us=p.time_us if p else None,
        predicted_low_us=p.low_us if p else None,
        predicted_high_us=p.high_us if p else None,
        predicted_coverage=p.coverage if p else None,
        predicted_doubt=p.doubt if p else None,
        predicted_busbw_GBps=(
            algbw_GBps(point.size_bytes, p.time_us) * factor if p and timed else None
        ),
        bound_time_us=p.bound_time_us if p else None,
        bound_busbw_GBps=(
            algbw_GBps(point.size_bytes, p.bound_time_us) * factor
            if p and p.bound_time_us > 0
            else None
        ),
        ratio=p.time_us / measured.time_us_loop if p and timed else None,
        algorithm=p.algorithm if p else None,
        protocol=p.protocol if p else None,
        bottleneck=p.bottleneck if p else None,
        provenance=p.provenance if p else None,
        library_version=said.version,
        driver_version=said.driver_version,
        library_algorithm=said.algorithm,
        library_protocol=said.protocol,
        library_channels=said.channels,
        library_time_us=said.time_us,
        transport=said.transport,
        gdr=said.gdr,
        attempt=attempt,
        time_utc=time_utc,
    )


def row_to_json(row: Row) -> dict[str, Any]:
    """Plain data for one line of records.jsonl."""
    return dataclasses.asdict(row)


def row_from_json(data: Any, *, where: str, schema_version: int = SCHEMA_VERSION) -> Row:
    """The row that ``row_to_json`` wrote. Raises UsageError naming ``where`` on anything else.

    Of an older ``schema_version``, what that did not have is as it was then, or None.
    """
    if not isinstance(data, dict):
        raise UsageError(f"not a mapping: {str(data)[:60]}", where=where)
    fields = Row.__dataclass_fields__
    reject_unknown_keys(data, fields, where=where)
    if schema_version < 4:
        data = {**_ROW_OF_3, **data}
    if schema_version < 3:
        data = {**_ROW_OF_2, **data}
    if schema_version < 2:
        data = {**_ROW_OF_1, **data}
    missing = [f for f in fields if f not in data]
    if missing:
        raise UsageError(f"lacks {', '.join(missing)}", where=where)
    return Row(**{**data, "ranks": ranks_from_json(data["ranks"], where=where)})


POINT_OF_1: dict[str, Any] = {"timing": "eager", "beside": None, "uneven": None}
"""What a point of schema 1 does not say."""

_ROW_OF_1: dict[str, Any] = {
    **POINT_OF_1,
    **dict.fromkeys(
        (
            *("time_us_p99", "p50_low_us", "p50_high_us", "samples", "outliers", "rank_skew_us"),
            *("arrival_skew_us", "calls_per_graph", "gpu_clock_mhz", "gpu_temp_c", "throttled"),
            *("library_version", "driver_version", "library_algorithm", "library_protocol"),
            *("library_channels", "library_time_us", "transport", "gdr"),
        )
    ),
    "stopped_by": "count",
    "aggregated": 1,
    "blocking": False,
}

_ROW_OF_2: dict[str, Any] = {"memory": None}
"""What a row of schema 2 does not say: then it was torch's, on GPUs."""

_ROW_OF_3: dict[str, Any] = {"predicted_doubt": None}
"""What a row of schema 3 does not say: its intervals were taken to hold everywhere."""


def ranks_from_json(data: Any, *, where: str) -> tuple[int, ...] | None:
    """The ``ranks`` of a point, which JSON holds as a list. Raises UsageError."""
    if data is None:
        return None
    fine = isinstance(data, (list, tuple)) and data
    if not fine or not all(type(rank) is int and 0 <= rank <= MOST_RANK for rank in data):
        raise UsageError(
            f"{data!r:.60}", where=f"{where}: ranks", expected="a list of ranks, or null"
        )
    return tuple(data)
