"""What measuring itself costs: every way to call with the call replaced by an empty function, and a sweep.

    python tests/benchmarks/bench_harness.py [--ranks N] [--backend gloo|nccl] [--end 4G] [--collective NAME]

First table, one rank: ``p50`` and ``loop`` are what an empty call reads, so what the harness adds to these
figures; ``wall`` is all that a point took, divided by its timed calls: events, clocks, exchanges, statistics,
the data check. On a GPU in all three modes (direct without nccl4py: only its stream and timer are real), and
what one look at the GPU's state costs; there are two a point.
Second table: seconds for a sweep of one collective from 8 bytes, doubling, both places, with automatic
iterations, and what its points were stopped by. Ranks are forked here: one per GPU, or two over gloo.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path

from clusterlab.bench.options import BenchOptions
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, make_point
from clusterlab.core.sizes import human_size, parse_size
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group

MODES = {"gloo": ("eager",), "nccl": ("eager", "graph", "direct")}
EMPTY_CALLS = 2000


def main() -> None:
    options = _arguments()
    print(f"{'mode':8}{'p50 µs':>10}{'loop µs':>10}{'wall µs':>10}{'calls':>9}")
    for mode in MODES[options.backend]:
        _empty(options.backend, mode)
    if options.backend == "nccl":
        print(f"GPU state by NVML: {_on_ranks(1, _state_us):.0f} µs a look")
    print(
        f"\n{options.collective}, {options.ranks} ranks, 8 B to {human_size(options.end)}, both places"
    )
    for mode in MODES[options.backend]:
        _sweep(options, mode)


def _empty(backend: str, mode: str) -> None:
    """One line of the first table."""
    point = make_point("all_gather", 8, DTYPES["float32"], 1, timing=mode)
    options = BenchOptions(iterations=EMPTY_CALLS, warmup=5, keep_going=True)

    def measured(identity: RankIdentity, open_store: OpenStore) -> list[object]:
        _replace_calls()
        done: list[tuple[float, Measurement]] = []
        _join(identity, open_store, backend)
        _measure(
            identity, [point] * 3, options, lambda _p, m, _s: done.append((time.perf_counter(), m))
        )
        (_, _), (began_s, _), (ended_s, found) = done
        timed = (found.samples or 0) * (found.calls_per_graph or 1) + found.iterations
        wall_us = (ended_s - began_s) * 1e6 / timed
        return [found.time_us_p50, found.time_us_loop, wall_us, timed]

    p50, loop, wall, calls = _on_ranks(1, measured)
    print(f"{mode:8}{p50:10.3f}{loop:10.3f}{wall:10.3f}{calls:9}")


def _state_us(_identity: RankIdentity, _open_store: OpenStore) -> float:
    """Median time of reading clock, temperature and reasons."""
    import torch

    from clusterlab.bench.conditions import open_gpu_state, read_state

    gpu = open_gpu_state(torch.device("cuda", 0))
    times = []
    for _ in range(50):
        began = time.perf_counter()
        read_state(gpu)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e6


def _sweep(asked: argparse.Namespace, mode: str) -> None:
    """One line of the second table."""
    sizes = [8 << i for i in range(64) if 8 << i <= asked.end]
    points = [
        make_point(
            asked.collective, size, DTYPES["float32"], asked.ranks, in_place=place, timing=mode
        )
        for size in sizes
        for place in (False, True)
    ]
    options = BenchOptions(iterations=None, warmup=None)

    def measured(identity: RankIdentity, open_store: OpenStore) -> list[object]:
        why: list[str] = []
        _join(identity, open_store, asked.backend)
        began_s = time.perf_counter()
        _measure(identity, points, options, lambda _p, m, _s: why.append(m.stopped_by))
        return [time.perf_counter() - began_s, why]

    if mode == "direct" and not _has_nccl4py():
        print("direct  needs nccl4py")
        return
    seconds, why = _on_ranks(asked.ranks, measured)
    print(f"{mode:8}{seconds:8.1f} s for {len(points)} points; stopped by {dict(Counter(why))}")


def _measure(identity: RankIdentity, points: list[Point], options: BenchOptions, keep) -> None:
    from clusterlab.bench.runner import measure_points

    measure_points(identity, points, options, keep)


def _replace_calls() -> None:
    """Whatever the ways bind is an empty function from here on."""
    from clusterlab.bench import ways
    from clusterlab.bench.ops import Operation

    def empty() -> None:
        return None

    class Nothing:
        def bind(self, *_: object) -> Operation:
            return Operation(empty, empty)

        def grouped(self, calls):
            return calls[0]

        def close(self) -> None:
            return None

    ways.bind = lambda *_: Operation(empty, empty)
    ways.open_direct = lambda *_: Nothing()


def _join(identity: RankIdentity, open_store: OpenStore, backend: str) -> None:
    import torch

    if backend == "nccl":
        torch.cuda.set_device(identity.local_rank)
    init_process_group(identity, open_store(60), backend, timeout_s=120)


def _on_ranks(ranks: int, measured) -> list:
    """What ``measured`` returns on rank 0."""
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "told.json"

        def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
            told = measured(identity, open_store)
            if identity.rank == 0:
                kept.write_text(json.dumps(told))
            return 0

        outcome = run_local_ranks(ranks, rank_main, log_dir=Path(folder))
        if outcome.exit_code:
            raise SystemExit(outcome.message)
        return json.loads(kept.read_text())


def _has_nccl4py() -> bool:
    import importlib.util

    try:
        return importlib.util.find_spec("nccl.bindings") is not None
    except ModuleNotFoundError:
        return False


def _arguments() -> argparse.Namespace:
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=tuple(MODES), default="nccl" if gpus else "gloo")
    parser.add_argument("--ranks", type=int, default=gpus or 2)
    parser.add_argument("--end", type=parse_size, default=4 << 30 if gpus else 16 << 20)
    parser.add_argument("--collective", default="all_reduce")
    return parser.parse_args()


if __name__ == "__main__":
    main()
