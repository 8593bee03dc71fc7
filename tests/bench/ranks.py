"""Real ranks on this machine for tests: measure points, and get what rank 0 saw back."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_steps
from clusterlab.bench.support import unsupported_reason
from clusterlab.core.collectives import REDUCE_OPS, SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_outcome import LocalOutcome
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group

if TYPE_CHECKING:
    from torch.distributed import Store

QUICK = BenchOptions(iterations=1, warmup=0, deadline_s=60)

Interfere = Callable[[RankIdentity, Point], None]
"""Called on every rank after every point: where a test breaks something."""


@dataclass(frozen=True)
class Sweep:
    """What rank 0 measured before the job ended, and how it ended."""

    outcome: LocalOutcome
    measured: list[tuple[Point, Measurement, list[float]]]


def combinations(backend: str, world_size: int) -> Iterator[tuple[str, str, str | None]]:
    """Every collective, dtype and operator that ``backend`` has."""
    for what in SWEPT.values():
        for dtype in DTYPES:
            for op in REDUCE_OPS if what.reduces else (None,):
                if unsupported_reason(backend, world_size, what.name, dtype, op) is None:
                    yield what.name, dtype, op


def every_point(
    backend: str, world_size: int, sizes: Sequence[int], *, alternate_places: bool = False
) -> list[Point]:
    """All combinations at ``sizes``, both places, or in place and out of place in turn."""
    points = []
    for i, (name, dtype, op) in enumerate(combinations(backend, world_size)):
        for in_place in (bool(i % 2),) if alternate_places else (False, True):
            points += [
                make_point(name, s, DTYPES[dtype], world_size, op=op, in_place=in_place)
                for s in sizes
            ]
    return points


def sweep(
    world_size: int,
    points: Iterable[Point],
    tmp_path: Path,
    *,
    options: BenchOptions = QUICK,
    backend: str = "gloo",
    steps: Sequence[Sequence[Point]] | None = None,
    interfere: Interfere | None = None,
    with_store: bool = True,
    log_dir: Path | None = None,
) -> Sweep:
    """Measure ``points`` one after the other, or ``steps``, on freshly forked ranks."""
    results = tmp_path / "measured.pickle"
    todo = list(steps) if steps is not None else [(point,) for point in points]

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        store = join(identity, open_store, backend)
        with results.open("ab") as file:

            def keep(point: Point, measured: Measurement, slowest_us: list[float]) -> None:
                pickle.dump((point, measured, slowest_us), file)
                file.flush()

            def after(point: Point, _own_us: list[float]) -> None:
                if interfere is not None:
                    interfere(identity, point)

            measure_steps(
                identity,
                todo,
                options,
                keep,
                store=store if with_store else None,
                on_samples=after,
            )
        return 0

    outcome = run_local_ranks(world_size, rank_main, log_dir=log_dir)
    return Sweep(outcome, list(_unpickle(results)))


def join(identity: RankIdentity, open_store: OpenStore, backend: str = "gloo") -> Store:
    """The default process group over the local store; under NCCL on the rank's own GPU."""
    import torch

    if backend == "nccl":
        torch.cuda.set_device(identity.local_rank)
    store = open_store(60)
    init_process_group(identity, store, backend, timeout_s=120)
    # A rank that ends at once, refused, would take the store along before others have joined.
    torch.distributed.barrier()
    return store


def _unpickle(path: Path) -> Iterator[tuple[Point, Measurement, list[float]]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        while file.tell() < os.fstat(file.fileno()).st_size:
            yield pickle.load(file)
