"""Run directories of two years of nightly sweeps on three clusters, as clusterlab writes them, with known
truth: since when which node is slow, and when NCCL was upgraded.
"""

from __future__ import annotations

import functools
import math
import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clusterlab.core.dtypes import dtype
from clusterlab.core.measurement import LibrarySaid, Measurement
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Point, Predicted, make_point, make_row
from clusterlab.records import run_dir
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.environment import versions
from clusterlab.records.schema import row_to_line

FIRST, DAYS = datetime(2024, 11, 1, tzinfo=UTC), 730
CLUSTERS = ("alps", "jura", "eifel")
NODES, OF_A_RUN, GPUS = 24, 4, 8
SLOW_CLUSTER, SLOW_NODE, SLOW_BY = "alps", "alps-n07", 1.15
SLOW_SINCE = FIRST + timedelta(days=610)
NEW_NCCL, FASTER_BY = FIRST + timedelta(days=400), 0.93  # on jura, small messages
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
SIZES = tuple(8 * 4**i for i in range(15))  # 8 B to 2 GiB
ROWS = len(COLLECTIVES) * len(SIZES) * 4
"""In place or not, eager or in a graph."""


def make_runs(root: Path, runs: int, *, first: int = 0, processes: int | None = None) -> None:
    """``runs`` run directories of ROWS rows under ``root``, numbered from ``first`` on over time."""
    root.mkdir(parents=True, exist_ok=True)
    numbers = range(first, first + runs)
    chunks = [numbers[i : i + 50] for i in range(0, runs, 50)]
    with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
        list(pool.map(functools.partial(_some, root, max(runs, first)), chunks))


def _some(root: Path, of: int, numbers: Sequence[int]) -> None:
    os.fsync = lambda _fd: None  # a disk that loses power may lose generated runs
    run_dir.versions = functools.cache(versions)
    points = _points()
    for number in numbers:
        _make(root, number, FIRST + timedelta(days=DAYS * number / of), points)


@functools.cache
def _points() -> tuple[tuple[Point, Predicted], ...]:
    kind = dtype("bfloat16")
    found = []
    for name in COLLECTIVES:
        for size in SIZES:
            for in_place in (False, True):
                for timing in ("eager", "graph"):
                    point = make_point(
                        name, size, kind, OF_A_RUN * GPUS, in_place=in_place, timing=timing
                    )
                    time_us = 20.0 + (18.0 if timing == "eager" else 0.0) + point.size_bytes / 170e3
                    model = Predicted(
                        time_us=time_us,
                        bound_time_us=point.size_bytes / 400e3,
                        algorithm="ring",
                        protocol="ll128" if size < 1 << 20 else "simple",
                        bottleneck="NICs of each host (91%)" if size > 1 << 20 else "latency (88%)",
                        low_us=time_us * 0.93,
                        high_us=time_us * 1.07,
                        provenance="calibration of this system, 2024-10-20, 412 rows",
                        coverage=0.9,
                    )
                    found.append((point, model))
    return tuple(found)


def _make(
    root: Path, number: int, when: datetime, points: Sequence[tuple[Point, Predicted]]
) -> None:
    rng = random.Random(number)
    cluster = CLUSTERS[number % len(CLUSTERS)]
    hosts = sorted(f"{cluster}-n{n:02}" for n in rng.sample(range(NODES), OF_A_RUN))
    upgraded = cluster == "jura" and when >= NEW_NCCL
    slow = cluster == SLOW_CLUSTER and SLOW_NODE in hosts and when >= SLOW_SINCE
    os.environ["SLURM_CLUSTER_NAME"], os.environ["SLURM_JOB_ID"] = cluster, str(number)
    command = ("clusterlab", "bench", "all", "-b", "8", "-e", "2G", "-f", "4")
    run = run_dir.create_run(
        "nightly", root=root, command=command, now=when, planned_points=len(points),
        configuration={"backend": "nccl", "min_bytes": 8, "max_bytes": 2 << 30, "factor": 4},
    )  # fmt: skip
    run = run_dir.start_attempt(run, command=command, now=when)
    places = [(host, gpu) for host in hosts for gpu in range(GPUS)]
    write_placement(
        run.path,
        Placement(
            tuple(
                RankPlacement(r, host, gpu, gpu=f"0000:{gpu + 16:02x}:00.0", gpu_name="NVIDIA H100")
                for r, (host, gpu) in enumerate(places)
            )
        ),
    )
    write_fabric(
        run.path, FabricReference(f"superpod-h100-{cluster}", "3f" * 32, {}, "calibration")
    )
    said = LibrarySaid(version="2.30.1" if upgraded else "2.27.5", algorithm="ring", channels=16)
    pace = {part: math.exp(rng.gauss(0.0, sd)) for part, sd in enumerate((0.029, 0.009, 0.006))}
    lines = []
    for i, (point, model) in enumerate(points):
        part = 0 if point.size_bytes < 1 << 16 else 1 if point.size_bytes < 1 << 24 else 2
        time_us = model.time_us * pace[part] * math.exp(rng.gauss(0.0, 0.008))
        time_us *= SLOW_BY if slow and part == 2 else FASTER_BY if upgraded and part == 0 else 1.0
        measured = Measurement(
            iterations=100, warmup=5, time_us_loop=time_us, time_us_p50=time_us * 1.01,
            time_us_min=time_us * 0.97, time_us_max=time_us * 1.2, time_us_p95=time_us * 1.05,
            time_us_p99=time_us * 1.1, cv=0.02, p50_low_us=time_us * 1.005, p50_high_us=time_us * 1.015,
            samples=100, outliers=1, wrong=0, said=said,
        )  # fmt: skip
        moment = when + timedelta(seconds=i)
        row = make_row(
            point, measured, model, backend="nccl", attempt=1, time_utc=run_dir.utc_text(moment)
        )
        lines.append(row_to_line(row))
    run.records_path.write_bytes(b"".join(lines))
    run_dir.end_attempt(run, 0, now=when + timedelta(seconds=len(points)))
