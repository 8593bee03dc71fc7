"""Run directories for the tests of ``why``: two H200 or other hosts, times as given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from clusterlab.core.collectives import algbw_GBps, busbw_factor
from clusterlab.core.dtypes import dtype
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row, make_point
from clusterlab.records.documents import FabricReference, write_fabric, write_placement
from clusterlab.records.run_dir import create_run, start_attempt
from clusterlab.records.schema import row_to_line
from tests.records.fake_runs import fake_rows

SIZES = tuple(1 << k for k in range(3, 32))


def why_run(
    root: Path,
    times_us: Mapping[int, float],
    *,
    collective: str = "all_reduce",
    gpus: int = 2,
    gpu: str = "NVIDIA H200",
    fabric: str | None = "h200-2",
    timing: str = "direct",
    backend: str = "nccl",
    planned: int | None = None,
    change: Callable[[Row], Row] = lambda row: row,
) -> Path:
    """A finished sweep: ``times_us`` by size."""
    points = [make_point(collective, s, dtype("float32"), gpus, timing=timing) for s in times_us]
    rows = []
    for row, time_us in zip(fake_rows(points), times_us.values(), strict=True):
        algbw = algbw_GBps(row.size_bytes, time_us)
        plain = replace(
            row, backend=backend, time_us_loop=time_us, algbw_GBps=algbw, wrong=0,
            busbw_GBps=algbw * busbw_factor(collective, gpus), predicted_low_us=None,
            predicted_high_us=None, wrong_rank=None, wrong_index=None, wrong_expected=None,
            wrong_got=None, library_version="2.28.9",
        )  # fmt: skip
        rows.append(change(plain))
    made = start_attempt(create_run("sweep", root=root, planned_points=planned))
    ranks = tuple(
        RankPlacement(r, "n0", r, gpu=f"0000:0{r}:00.0", gpu_name=gpu) for r in range(gpus)
    )
    write_placement(made.path, Placement(ranks))
    if fabric is not None:
        write_fabric(made.path, FabricReference(fabric, "0" * 64))
    made.records_path.write_bytes(b"".join(map(row_to_line, rows)))
    return made.path
