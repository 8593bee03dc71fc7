"""The file nccl-tests writes with -J, from a run's rows: one object for one collective, called in one way.

Keys, order and types are those of nccl-tests 2.19 (src/util.cu, version 3 of its file), with its ways: true
and false are texts, ``root`` is a padded text, NaN is the text ``nan``. ``made_by`` is ours. Times of day are
UTC. What is not known is null, and so are ``iterations`` and ``warmup_iters`` where points took as many as
they needed: each result has its ``actual_iterations``, the lesser of its halves'. Of an interrupted run the
closing keys (``out_of_bounds``, ``average_bus_bandwidth``, ``end_time``) are left out, as nccl-tests leaves
them out when it dies; the object itself is whole.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.collectives import OPERATIONS
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.environment import allowed_environment
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Point, Row
from clusterlab.report.console.nccl_table import point_without_place, table_of

_FILE_VERSION = 3

RankTimes = Sequence[Sequence[float]]
"""Of each rank, its time (µs) of every iteration."""


@dataclass(frozen=True, slots=True)
class About:
    """What stands around the results. ``ended_utc`` None: the run did not end by itself, ``errors`` say why.

    ``pids`` are the ranks' process ids, 0 or missing where not known. ``library_version`` is for rows that
    do not say theirs.
    """

    command: Sequence[str]
    made_by: str
    environment: Mapping[str, str]
    started_utc: str
    ended_utc: str | None
    placement: Placement | None
    library_version: str | None = None
    pids: Sequence[int] = ()
    errors: Sequence[str] = ()


def tables(rows: Iterable[Row]) -> list[list[Row]]:
    """Those of ``rows`` (one per point) that all ranks took part in, a list for each file of nccl-tests."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.ranks is None:
            groups.setdefault((*table_of(row), row.world_size), []).append(row)
    return list(groups.values())


def nccl_tests_json(rows: Sequence[Row], about: About, times: Mapping[Point, RankTimes]) -> str:
    """The file for ``rows`` of one table; ``times`` are the single iterations' of those that have them."""
    first = rows[0]
    data: dict[str, Any] = {
        "version": _FILE_VERSION,
        "start_time": _time(about.started_utc),
        "args": [f"{OPERATIONS[first.collective].nccl_tests}_perf", *about.command],
        "env": [f"{k}={v}" for k, v in allowed_environment(about.environment).items()],
        "nccl_version": _version_code(first.library_version or about.library_version),
        "made_by": about.made_by,
        "config": _config(rows, about),
        "results": [_result(halves, times) for halves in _halves(rows)],
    }
    if about.ended_utc is not None:
        wrong = sum(row.wrong or 0 for row in rows)
        average = statistics.fmean(row.busbw_GBps for row in rows)
        data["out_of_bounds"] = {"count": wrong, "okay": _text(wrong == 0)}
        data["average_bus_bandwidth"] = {"bandwidth": _number(average), "okay": "unchecked"}
    data["errors"] = list(about.errors)
    if about.ended_utc is not None:
        data["end_time"] = _time(about.ended_utc)
    return json.dumps(data, allow_nan=False, separators=(",", ":")) + "\n"


def _config(rows: Sequence[Row], about: About) -> dict[str, Any]:
    first = rows[0]
    sizes = sorted({row.requested_bytes for row in rows})
    return {
        "nthreads": 1,
        "ngpus": 1,
        "minimum_bytes": sizes[0],
        "maximum_bytes": sizes[-1],
        **_step(sizes),
        "warmup_iters": _one([row.warmup for row in rows]),
        "iterations": _one([row.iterations for row in rows]),
        "aggregated_iterations": first.aggregated,
        "validation": int(all(row.wrong is not None for row in rows)),
        "graph": (first.calls_per_graph or 1) if first.timing == "graph" else 0,
        "blocking_collectives": _text(first.blocking),
        "per_iter_timing": "true",
        "per_iter_skip": 0,
        "parallel_init": "false",
        "devices": _devices(about),
    }


def _one(values: Sequence[int]) -> int | None:
    """The value that all have; None where they differ."""
    return values[0] if len(set(values)) == 1 else None


def _step(sizes: Sequence[int]) -> dict[str, Any]:
    """The step in bytes where at least three sizes are evenly spaced, else the first two's factor."""
    steps = {b - a for a, b in itertools.pairwise(sizes)}
    if len(sizes) > 2 and len(steps) == 1:
        return {"step_bytes": steps.pop()}
    factor = sizes[1] / sizes[0] if len(sizes) > 1 and sizes[0] else 2.0
    return {"step_factor": int(factor) if factor.is_integer() else factor}


def _devices(about: About) -> list[dict[str, Any]]:
    ranks = about.placement.ranks if about.placement is not None else ()
    return [
        {
            "rank": r.rank,
            "group": 0,
            "pid": about.pids[r.rank] if r.rank < len(about.pids) else 0,
            "hostname": r.host,
            "device": r.local_rank,
            "device_hex": r.gpu or "cpu",
            "device_info": r.gpu_name or "CPU",
        }
        for r in ranks
    ]


def _halves(rows: Sequence[Row]) -> list[dict[bool, Row]]:
    """The out-of-place and in-place row of each line, in order of first sight."""
    lines: dict[tuple[object, ...], dict[bool, Row]] = {}
    for row in rows:
        lines.setdefault(point_without_place(row), {})[row.in_place] = row
    return list(lines.values())


def _result(halves: Mapping[bool, Row], times: Mapping[Point, RankTimes]) -> dict[str, Any]:
    row = next(iter(halves.values()))
    data: dict[str, Any] = {
        "size": row.size_bytes,
        "count": row.count,
        "type": DTYPES[row.dtype].nccl_tests,
        "redop": row.op or "none",
        "root": f"{-1 if row.root is None else row.root:6d}",
    }
    for in_place, key in ((False, "out_of_place"), (True, "in_place")):
        half = halves.get(in_place)
        data[key] = None if half is None else _half(half)
        if half is not None:
            data[f"{key}_per_iter"] = _per_iteration(half, times.get(half.point, ()))
    data["actual_iterations"] = min(half.iterations for half in halves.values())
    data["experiment_name"] = "" if row.timing == "eager" else row.timing
    return data


def _half(row: Row) -> dict[str, Any]:
    return {
        "time": _number(row.time_us_loop),
        "alg_bw": _number(row.algbw_GBps),
        "bus_bw": _number(row.busbw_GBps),
        "nwrong": row.wrong,
    }


def _per_iteration(row: Row, ranks: RankTimes) -> dict[str, Any]:
    """The row's own figures; mean and deviation where the single times are there."""
    slowest = [max(each) for each in zip(*ranks, strict=True)]
    mean = statistics.fmean(slowest) if slowest else None
    data: dict[str, Any] = {
        "skipped_iterations": 0,
        "min_us": _number(row.time_us_min),
        "max_us": _number(row.time_us_max),
        "avg_us": _number(mean),
        "p50_us": _number(row.time_us_p50),
        "p95_us": _number(row.time_us_p95),
        "p99_us": _number(row.time_us_p99),
        "stdev_us": _number(None if mean is None else row.cv * mean),
        "cv_pct": _number(100 * row.cv),
        "times_us": slowest,
    }
    if len(ranks) > 1:
        data["per_process_max_times_us"] = [list(each) for each in ranks]
    return data


def _number(value: float | None) -> float | str | None:
    """JSON has no NaN and no infinity; nccl-tests writes the first as a text."""
    if value is None or math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _text(value: bool) -> str:
    return "true" if value else "false"


def _time(utc: str) -> str:
    """``2026-11-29T12:00:00Z`` as nccl-tests prints a time."""
    return utc.replace("T", " ").removesuffix("Z")


def _version_code(version: str | None) -> int | None:
    """22809 for ``2.28.9`` (nccl.h NCCL_VERSION); None where it is not known."""
    parts = (version or "").partition("+")[0].split(".")
    if len(parts) < 2 or not all(part.isdecimal() for part in parts):
        return None
    major, minor, patch = (*map(int, parts), 0)[:3]
    wide = (major, minor) > (2, 8)
    return major * (10_000 if wide else 1000) + minor * 100 + patch
