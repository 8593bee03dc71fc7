"""The same promises over NCCL, on real GPUs: one rank per GPU of this machine."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.core.collectives import SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.rows import make_point
from tests.bench.ranks import QUICK, every_point, sweep

pytestmark = pytest.mark.gpu

F32 = DTYPES["float32"]
MiB = 1 << 20


@pytest.fixture(scope="module")
def gpus() -> Iterator[int]:
    """Number of GPUs, asked of the driver: the launcher must not touch CUDA before it forks."""
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if count == 0:
        pytest.skip("no NVIDIA GPU on this machine")
    return count


def test_every_combination_is_right_in_place_and_out_of_place(gpus, tmp_path):
    points = every_point("nccl", gpus, [1001, 2 * MiB + 24])
    done = sweep(gpus, points, tmp_path, backend="nccl")
    assert done.outcome.message is None
    assert len(done.measured) == len(points)
    assert [(p, m.first_wrong) for p, m, _ in done.measured if m.wrong] == []
    undefined = {p.collective for p, m, _ in done.measured if m.wrong is None}
    assert undefined == {"all_to_all", "all_to_all_v", "send_recv"}


def test_uneven_parts_are_right(gpus, tmp_path):
    points = [
        make_point("all_to_all_v", size, DTYPES[dtype], gpus, uneven=uneven)
        for uneven in ("linear", "hot:0.7", "random:3")
        for dtype in ("float32", "bfloat16", "int8", "float8_e4m3fn")
        for size in (1, 1001, 2 * MiB + 24)
    ]
    done = sweep(gpus, points, tmp_path, backend="nccl")
    assert done.outcome.message is None
    assert [p for p, _, _ in done.measured] == points
    assert [(p, m.first_wrong) for p, m, _ in done.measured if m.wrong] == []


@pytest.mark.parametrize("name", list(SWEPT))
def test_a_corrupted_element_is_named(name, gpus, tmp_path):
    rank = 0 if name in ("reduce", "gather") else gpus - 1
    points = [make_point(name, 64 * 1024, F32, gpus, op="sum")]
    options = dataclasses.replace(QUICK, corrupt=(rank, 321))
    (_, measured, _) = sweep(gpus, points, tmp_path, options=options, backend="nccl").measured[0]
    assert measured.wrong == 1
    assert (measured.first_wrong.rank, measured.first_wrong.index) == (rank, 321)


def test_events_measure_the_device_not_the_launch(gpus, tmp_path):
    """A copy of the whole buffer cannot take less than memory bandwidth allows: 4 GB/ms is beyond any
    GPU, so a loop time below that would mean that only the launch was timed."""
    point = make_point("all_reduce", 256 * MiB, F32, gpus, op="sum")
    options = dataclasses.replace(QUICK, iterations=5, warmup=3)
    done = sweep(gpus, [point], tmp_path, options=options, backend="nccl")
    (_, measured, slowest_us) = done.measured[0]
    floor_us = point.size_bytes / 4e12 * 1e6 if gpus > 1 else 0
    assert measured.time_us_loop > floor_us
    assert len(slowest_us) == 5
    assert min(slowest_us) > floor_us


def test_sizes_beyond_gpu_memory_are_refused(gpus, tmp_path):
    points = [make_point("all_reduce", 1 << 42, F32, gpus)]
    outcome = sweep(gpus, points, tmp_path, backend="nccl").outcome
    assert outcome.exit_code == ExitCode.USAGE
    assert "of GPU memory is free" in outcome.message


def test_a_rank_that_never_joins_ends_the_job_at_the_deadline(gpus, tmp_path, capfd):
    if gpus < 2:
        pytest.skip("needs two GPUs")
    points = [make_point("all_reduce", 1024 * (i + 1), F32, gpus) for i in range(3)]

    def hang(identity, point):
        if identity.rank == 1 and point == points[1]:
            time.sleep(120)

    options = dataclasses.replace(QUICK, deadline_s=10)
    outcome = sweep(gpus, points, tmp_path, options=options, backend="nccl", interfere=hang).outcome
    assert outcome.exit_code == ExitCode.DEADLINE
    assert "rank 1 had not begun it" in capfd.readouterr().err
