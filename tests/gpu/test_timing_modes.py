"""Eager, graph and direct on real GPUs: right data in each, and what each is for can be seen in its times.

One GPU: one NCCL rank, and several ranks that NCCL takes for as many hosts (NCCL_HOSTID), which is slow and
for the data only. Two GPUs: the modes against each other.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from clusterlab.bench.options import BenchOptions
from clusterlab.core.collectives import SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.local import run_local_ranks
from tests.bench.ranks import QUICK, combinations

pytestmark = pytest.mark.gpu

F32 = DTYPES["float32"]
KiB, MiB = 1 << 10, 1 << 20
MODES = ("eager", "graph", "direct")
FEW = BenchOptions(iterations=10, warmup=3, deadline_s=90)


@pytest.fixture(scope="module", autouse=True)
def gpus() -> int:
    """Number of GPUs, asked of the driver: the launcher must not touch CUDA before it forks."""
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if count == 0:
        pytest.skip("no NVIDIA GPU on this machine")
    return count


def has_nccl4py() -> bool:
    try:
        return importlib.util.find_spec("nccl.bindings") is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(params=MODES)
def mode(request) -> str:
    if request.param == "direct" and not has_nccl4py():
        pytest.skip("direct needs nccl4py")
    return request.param


def modes() -> list[str]:
    return [m for m in MODES if m != "direct" or has_nccl4py()]


Found = list[tuple[Point, Measurement, list[float]]]


def measure(
    ranks: int,
    steps: Sequence[Sequence[Point]],
    folder: Path,
    options: BenchOptions = FEW,
    *,
    one_gpu: bool = False,
    patch=None,
) -> tuple[object, Found]:
    """Measure on freshly forked NCCL ranks: one per GPU, or all on the first as if on hosts of their own."""
    kept = folder / "found.pickle"

    def rank_main(identity, open_store):
        import torch

        from clusterlab.bench.runner import measure_steps
        from clusterlab.launch.rendezvous import init_process_group

        if one_gpu:
            os.environ["NCCL_HOSTID"] = f"host{identity.rank}"
        torch.cuda.set_device(0 if one_gpu else identity.local_rank)
        if patch is not None:
            patch()
        store = open_store(60)
        init_process_group(identity, store, "nccl", timeout_s=120)
        found: Found = []
        measure_steps(identity, steps, options, lambda *one: found.append(one), store=store)
        if identity.rank == 0:
            kept.write_bytes(pickle.dumps(found))
        torch.distributed.destroy_process_group()
        return 0

    outcome = run_local_ranks(ranks, rank_main, log_dir=folder)
    return outcome, pickle.loads(kept.read_bytes()) if kept.exists() else []


def alone(points: Sequence[Point]) -> list[tuple[Point]]:
    return [(point,) for point in points]


def right(outcome, found: Found, count: int) -> None:
    assert outcome.exit_code == 0, outcome.message
    assert len(found) == count
    assert [(p, m.first_wrong) for p, m, _ in found if m.wrong] == []


def every(ranks: int, mode: str, sizes: Sequence[int]) -> list[Point]:
    return [
        make_point(name, size, DTYPES[dtype], ranks, op=op, in_place=bool(i % 2), timing=mode)
        for i, (name, dtype, op) in enumerate(combinations("nccl", ranks))
        for size in sizes
    ]


def test_one_rank_every_combination_is_right(mode, tmp_path):
    # Out of place and on one rank NCCL 2.28.9 leaves the last elements of an average as they were where 32
    # blocks do not divide them (src/device/onerank.cu rounds down); torch calls it in place.
    unfinished = "avg" if mode == "direct" else None
    points = [p for p in every(1, mode, [1001, 2 * MiB + 24]) if p.op != unfinished or p.in_place]
    outcome, found = measure(1, alone(points), tmp_path, QUICK)
    right(outcome, found, len(points))
    for point, measured, _ in found:
        assert (measured.calls_per_graph is None) == (mode != "graph"), point


def test_all_gpus_every_combination_is_right(mode, gpus, tmp_path):
    if gpus < 2:
        pytest.skip("needs two GPUs")
    points = every(gpus, mode, [1001, 2 * MiB + 24])
    outcome, found = measure(gpus, alone(points), tmp_path, QUICK)
    right(outcome, found, len(points))


def test_two_ranks_on_one_gpu_every_collective_is_right(mode, tmp_path):
    points = [
        make_point(name, size, F32, 2, root=1, in_place=in_place, timing=mode)
        for name in SWEPT
        for size in (1001, 256 * KiB)
        for in_place in (False, True)
    ]
    outcome, found = measure(2, alone(points), tmp_path, one_gpu=True)
    right(outcome, found, len(points))
    unchecked = {p.collective for p, m, _ in found if m.wrong is None}
    assert unchecked == {"all_to_all", "all_to_all_v", "send_recv"}


def test_groups_and_pairs_of_four_ranks_on_one_gpu_are_right(mode, tmp_path):
    def both(name, left=(0, 2), right=(1, 3), **more):
        return [
            make_point(name, 4 * KiB, F32, 2, ranks=ranks, timing=mode, **more)
            for ranks in (left, right)
        ]

    steps = [
        both("all_reduce"),
        both("broadcast", root=1),
        [make_point("all_gather", 4 * KiB, F32, 3, ranks=(0, 1, 3), timing=mode)],
        both("send", (2, 0), (1, 3)),
        both("ping_pong", (0, 1), (2, 3)),
        both("send_recv", (0, 3), (1, 2)),
        [make_point("reduce_scatter", 4 * KiB, F32, 4, timing=mode)],
    ]
    outcome, found = measure(4, steps, tmp_path, one_gpu=True)
    right(outcome, found, sum(map(len, steps)))
    assert all(m.wrong == 0 for _, m, _ in found)


def test_a_corrupted_element_is_named(mode, tmp_path):
    point = make_point("all_gather", 64 * KiB, F32, 1, timing=mode)
    options = dataclasses.replace(QUICK, corrupt=(0, 321))
    _, ((_, measured, _),) = measure(1, alone([point]), tmp_path, options)
    assert measured.wrong == 1
    assert (measured.first_wrong.rank, measured.first_wrong.index) == (0, 321)


def test_the_check_of_a_graph_sees_a_graph_that_does_nothing(tmp_path):
    def patch():
        from clusterlab.bench import ways

        ways.captured = lambda _call, _times, _stream: lambda: None

    point = make_point("all_gather", 64 * KiB, F32, 1, timing="graph")
    _, ((_, measured, _),) = measure(1, alone([point]), tmp_path, QUICK, patch=patch)
    assert measured.wrong == 16 * KiB


@pytest.mark.parametrize("many", [1, 4])
@pytest.mark.parametrize("blocking", [False, True])
def test_groups_of_calls_and_waiting_hosts(many, blocking, mode, tmp_path):
    options = dataclasses.replace(FEW, aggregated=many, blocking=blocking)
    points = [make_point(name, 4 * KiB, F32, 2, root=1, timing=mode) for name in SWEPT]
    outcome, found = measure(2, alone(points), tmp_path, options, one_gpu=True)
    if blocking and mode == "graph":
        assert outcome.exit_code == ExitCode.USAGE
        return
    right(outcome, found, len(points))
    for _, measured, _ in found:
        assert (measured.aggregated, measured.blocking) == (many, blocking)
        assert measured.time_us_loop > 0


def test_automatic_iterations_and_the_gpus_state(mode, tmp_path):
    options = BenchOptions(iterations=None, warmup=None, budget_s=0.5, deadline_s=60)
    points = [make_point("all_gather", size, F32, 1, timing=mode) for size in (8, MiB, 256 * MiB)]
    outcome, found = measure(1, alone(points), tmp_path, options)
    right(outcome, found, len(points))
    for _, measured, slowest_us in found:
        assert measured.stopped_by in ("confident", "budget")
        assert measured.samples == len(slowest_us) >= 6
        assert measured.p50_low_us <= measured.time_us_p50 <= measured.p50_high_us
        assert 100 < measured.conditions.gpu_clock_mhz < 5000
        assert 10 < measured.conditions.gpu_temp_c < 110
        assert measured.conditions.throttled is not None


def test_a_graph_with_n_and_g_is_as_in_nccl_tests(tmp_path):
    options = dataclasses.replace(FEW, iterations=20, graph_launches=3)
    point = make_point("all_gather", MiB, F32, 1, timing="graph")
    _, ((_, measured, slowest_us),) = measure(1, alone([point]), tmp_path, options)
    assert (measured.calls_per_graph, measured.iterations) == (20, 60)
    assert len(slowest_us) == measured.samples == 20


@pytest.mark.parametrize("size", [512 * MiB, 1024 * MiB])
def test_all_modes_agree_where_the_transfer_is_all_that_counts(size, gpus, tmp_path):
    """On one GPU a copy of the buffer, on several the collective itself: both outlast the host by far.

    In torch's memory, of which NCCL registers nothing for a graph either.
    """
    points = [make_point("all_gather", size, F32, gpus, timing=m) for m in modes()]
    options = dataclasses.replace(FEW, memory="torch")
    outcome, found = measure(gpus, alone(points), tmp_path, options)
    right(outcome, found, len(points))
    times = [m.time_us_p50 for _, m, _ in found]
    assert max(times) < 1.2 * min(times), times
    for _, measured, _ in found:
        assert measured.time_us_loop == pytest.approx(measured.time_us_p50, rel=0.2)


def test_a_graphs_buffers_are_registered_in_nccls_own_memory(gpus, tmp_path):
    """With several ranks a graph of all_gathers then copies straight between them, and is faster."""
    took = {}
    for memory in ("nccl", "torch"):
        (tmp_path / memory).mkdir()
        options = dataclasses.replace(FEW, memory=memory)
        point = make_point("all_gather", 128 * MiB, F32, gpus, timing="graph")
        outcome, found = measure(gpus, alone([point]), tmp_path / memory, options)
        right(outcome, found, 1)
        assert found[0][1].memory == memory
        took[memory] = found[0][1].time_us_p50
    print(f"{gpus} ranks, all_gather of 128 MiB in a graph: {took}")
    assert took["nccl"] < took["torch"] * (1.05 if gpus < 2 else 0.95)


def test_small_calls_cost_most_by_torch_less_directly_and_least_in_a_graph(gpus, tmp_path):
    points = [make_point("all_gather", 8 * KiB, F32, gpus, timing=m) for m in modes()]
    options = BenchOptions(iterations=None, warmup=None, deadline_s=60)
    outcome, found = measure(gpus, alone(points), tmp_path, options)
    right(outcome, found, len(points))
    times = {p.timing: m.time_us_p50 for p, m, _ in found}
    print(f"{gpus} ranks, all_gather of 8 KiB: {times}")
    assert times["graph"] < times["eager"]
    if "direct" in times:
        assert times["direct"] < times["eager"]
