"""Rows and run directories as a sweep would leave them, made from a seed: for tests only."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import dtype as dtype_named
from clusterlab.core.measurement import Measurement, WrongElement
from clusterlab.core.placement import local_placement
from clusterlab.core.rows import Point, Predicted, Row, make_point, make_row
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.run_dir import RunDir, create_run, end_attempt, start_attempt
from clusterlab.records.schema import row_to_line

START = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
SIZES = tuple(1024 * 4**i for i in range(8))  # 1 KiB to 16 MiB
ALL_COLLECTIVES = tuple(COLLECTIVES)


def points(
    collectives: Iterable[str] = ALL_COLLECTIVES,
    sizes: Iterable[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32",),
    ops: Sequence[str] = ("sum",),
    world_size: int = 4,
) -> Iterator[Point]:
    """Points in the order a sweep visits them."""
    for name in collectives:
        for dtype in dtypes:
            for op in ops if COLLECTIVES[name].reduces else (None,):
                for size in sizes:
                    for in_place in (False, True):
                        yield make_point(
                            name, size, dtype_named(dtype), world_size, op=op, in_place=in_place
                        )


def fake_row(
    point: Point,
    rng: random.Random,
    *,
    attempt: int = 1,
    number: int = 0,
    slow: float = 1.0,
    noise: float = 0.08,
    wrong: int | None = 0,
    predicted: bool = True,
    interval: bool = True,
    coverage: float | None = 0.9,
) -> Row:
    """A row of ``point``: latency plus bandwidth for the prediction, noise around it for the measurement.

    ``slow`` multiplies the measured time.
    """
    bound_us = point.size_bytes / 12e3  # 12 GB/s
    model_us = 30.0 + 10.0 * point.world_size + point.size_bytes / 4e3
    half = 1.645 * noise  # the interval of a normal distribution that holds 90 %
    time_us = model_us * slow * max(0.2, rng.gauss(1.0, noise))
    spread = 1.0 + abs(rng.gauss(0.0, 0.2))
    measured = Measurement(
        iterations=20,
        warmup=5,
        time_us_loop=time_us,
        time_us_p50=time_us * 1.02,
        time_us_min=time_us * 0.93,
        time_us_max=time_us * spread * 1.2,
        time_us_p95=time_us * spread * 1.1,
        cv=0.05 * spread,
        wrong=wrong,
        first_wrong=WrongElement(rank=1, index=17, expected=6.0, got=float("nan"))
        if wrong
        else None,
    )
    model = Predicted(
        time_us=model_us,
        bound_time_us=bound_us,
        algorithm="ring",
        protocol=None,
        bottleneck="memory of this host",
        low_us=model_us * (1 - half) if interval else None,
        high_us=model_us * (1 + half) if interval else None,
        provenance="self-calibration of this host",
        coverage=coverage if interval else None,
    )
    return make_row(
        point,
        measured,
        model if predicted else None,
        backend="gloo",
        attempt=attempt,
        time_utc=f"{START + timedelta(seconds=number):%Y-%m-%dT%H:%M:%SZ}",
    )


def fake_rows(some: Iterable[Point], *, seed: int = 1, **options: object) -> list[Row]:
    """A row for every point; ``options`` as for ``fake_row``."""
    rng = random.Random(seed)
    return [
        fake_row(point, rng, number=n, **options)  # type: ignore[arg-type]
        for n, point in enumerate(some)
    ]


def renamed(row: Row, **changes: object) -> Row:
    """``row`` with some fields changed."""
    return replace(row, **changes)  # type: ignore[arg-type]


def make_run(
    root: Path,
    rows: Iterable[Row],
    *,
    name: str = "sweep",
    world_size: int = 4,
    host: str = "node-a",
    planned_points: int | None = None,
    exit_code: int | None = 0,
) -> RunDir:
    """A run directory under ``root`` with ``rows`` in it, ended with ``exit_code`` (None: not ended)."""
    command = ("clusterlab", "bench", "all", "-b", "1K", "-e", "16M", "-f", "4")
    run = create_run(
        name,
        root=root,
        command=command,
        configuration={"backend": "gloo", "min_bytes": 1024, "max_bytes": 1 << 24, "factor": 4},
        planned_points=planned_points,
        now=START,
    )
    run = start_attempt(run, command=command, now=START)
    write_placement(run.path, local_placement(world_size, host, cores=(0, 1)))
    write_fabric(
        run.path,
        FabricReference("this host", "3f" * 32, {}, "self-calibration of node-a, 2026-11-29"),
    )
    # All at once: the writer's fsync per row would make tests with many rows wait for the disk.
    run.records_path.write_bytes(b"".join(row_to_line(row) for row in rows))
    if exit_code is None:
        return run
    return end_attempt(run, exit_code, now=START + timedelta(minutes=2))
