"""Two things at once on real GPUs: right data, and times that hang together."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from clusterlab.bench.overlap.figures import figures
from clusterlab.bench.overlap.measure import OverlapOptions, Overlapped, Pair, measure_overlap
from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.gpus import visible_gpus
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.rendezvous import init_process_group

pytestmark = pytest.mark.gpu

MiB = 1 << 20


def point(name: str, size: int, world_size: int) -> Point:
    return make_point(name, size, DTYPES["bfloat16"], world_size)


def overlapped(
    world_size: int,
    pairs: list[Pair],
    tmp_path: Path,
    options: OverlapOptions,
    *,
    one_gpu: bool = False,
) -> list[Overlapped]:
    """What rank 0 measured. With ``one_gpu``, ranks share a GPU: NCCL takes them for ranks of other hosts."""
    file = tmp_path / "overlapped.pickle"

    def rank_main(identity, open_store) -> int:
        import torch
        import torch.distributed as dist

        if one_gpu:
            os.environ["NCCL_HOSTID"] = f"host-{identity.rank}"
            os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        torch.cuda.set_device(0 if one_gpu else identity.local_rank)
        store = open_store(60)
        init_process_group(identity, store, "nccl", timeout_s=120)
        done: list[Overlapped] = []
        measure_overlap(identity, pairs, options, done.append, store=store)
        if identity.rank == 0:
            file.write_bytes(pickle.dumps(done))
        dist.destroy_process_group()
        return 0

    outcome = run_local_ranks(world_size, rank_main, log_dir=tmp_path)
    assert outcome.message is None, outcome.message
    return pickle.loads(file.read_bytes())


def all_right(done: list[Overlapped]) -> None:
    for d in done:
        print(d.pair.point.collective, d.pair.point.size_bytes, d.pair.beside, d.compute, d.calls)
        print(
            {n: f"{f.value:.3g} ({f.low:.3g}, {f.high:.3g})" for n, f in figures(d.rounds).items()}
        )
        for checked in (d.checked, d.other_checked):
            assert checked is not None
            assert checked.wrong == 0, d.pair
        assert all(r.both >= max(r.beside, r.other_beside) * 0.999 for r in d.rounds)


def test_one_gpu_alone_computes_beside_its_own_copies(tmp_path: Path) -> None:
    if visible_gpus() < 1:
        pytest.skip("needs a GPU")
    pairs = [Pair(point(n, 16 * MiB, 1), None) for n in ("all_reduce", "all_gather", "all_to_all")]
    all_right(overlapped(1, pairs, tmp_path, OverlapOptions(rounds=5)))


def test_two_ranks_on_one_gpu_are_right(tmp_path: Path) -> None:
    if visible_gpus() < 1:
        pytest.skip("needs a GPU")
    pairs = [
        Pair(point("all_reduce", MiB, 2), None),
        Pair(point("all_gather", MiB, 2), point("reduce_scatter", MiB, 2)),
    ]
    options = OverlapOptions(rounds=3, side=1024)
    all_right(overlapped(2, pairs, tmp_path, options, one_gpu=True))


def test_every_collective_is_right_beside_compute_and_another(tmp_path: Path) -> None:
    gpus = visible_gpus()
    if gpus < 2:
        pytest.skip("needs two GPUs")
    pairs = [
        Pair(point(name, 16 * MiB, gpus), None if other is None else point(other, 16 * MiB, gpus))
        for name in COLLECTIVES
        for other in (None, "all_gather")
    ]
    all_right(overlapped(gpus, pairs, tmp_path, OverlapOptions(rounds=5)))


@pytest.mark.parametrize("max_ctas", [None, 4])
def test_a_long_collective_slows_the_product_and_is_partly_hidden(
    max_ctas: int | None, tmp_path: Path
) -> None:
    gpus = visible_gpus()
    if gpus < 2:
        pytest.skip("needs two GPUs")
    pairs = [Pair(point("all_reduce", 256 * MiB, gpus), None)]
    options = OverlapOptions(rounds=15, max_ctas=max_ctas)
    (done,) = overlapped(gpus, pairs, tmp_path, options)
    all_right([done])
    found = figures(done.rounds)
    assert 0.2 < found["efficiency"].value < 1.05
    assert 0.98 < found["other_slowdown"].value < 2
    assert found["exposed_us"].value < found["alone_us"].value
