"""Measuring for a self-calibration: loops of every collective, and who else used the cores meanwhile."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_points
from clusterlab.core.errors import DeadlineError
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point
from clusterlab.cost.gloo.fit import MeasuredTime
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.runs.calibrating.calibration_plan import ENOUGH_SIZES, batches
from clusterlab.runs.calibrating.foreign_load import cpu_times, foreign_share

if TYPE_CHECKING:
    from torch.distributed import Store

BUDGET_S = 12.0
"""Measuring stops after the first batch that ends later than this, once enough sizes were met."""

BUSY_HOST = 0.10
"""Median share of the cores used by others from which on a calibration is rough; then it takes half as
long again, to find quieter loops."""

LOOP_US = 40_000.0
"""How long a loop should last: the noise of single calls is larger than what is to be measured."""

MOST_ITERATIONS = 50
JOIN_TIMEOUT_S = 60.0
DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Loop:
    """One measured loop; ``foreign_load``: share of the cores that others used meanwhile."""

    time: MeasuredTime
    foreign_load: float


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """What a calibration run measured, in order."""

    loops: tuple[Loop, ...]

    def quietest(self) -> tuple[Loop, ...]:
        """For each point the loops during which others used least; a difference of 3 % is none.

        Others only ever make a loop slower, so their share says which loops to believe.
        """
        least: dict[MeasuredTime, float] = {}
        for loop in self.loops:
            point = _point_of(loop)
            least[point] = min(loop.foreign_load, least.get(point, 1.0))
        return tuple(
            loop for loop in self.loops if loop.foreign_load <= least[_point_of(loop)] + 0.03
        )

    @property
    def foreign_load(self) -> float:
        """Median share of the cores that others used during the quietest loops."""
        return statistics.median(loop.foreign_load for loop in self.quietest())


def _point_of(loop: Loop) -> MeasuredTime:
    t = loop.time
    return MeasuredTime(t.collective, t.dtype, t.op, t.world_size, t.size_bytes, 0.0)


def measure_local(world_size: int, backend: str, *, budget_s: float = BUDGET_S) -> LocalTimes:
    """Start ranks on this host and measure. Raises DeadlineError when they do not all end well."""
    with tempfile.TemporaryDirectory(prefix="clusterlab-cal-") as folder:
        kept = Path(folder) / "times.json"

        def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
            import torch.distributed as dist

            store = open_store(JOIN_TIMEOUT_S)
            init_process_group(identity, store, backend, timeout_s=JOIN_TIMEOUT_S)
            measured = measure_times(identity, store, budget_s=budget_s)
            if identity.rank == 0:
                kept.write_text(json.dumps(asdict(measured)))
            dist.destroy_process_group()
            return 0

        outcome = run_local_ranks(world_size, rank_main, log_dir=Path(folder))
        if outcome.exit_code:
            raise DeadlineError(f"the self-calibration failed: {outcome.message}")
        told = json.loads(kept.read_text())
    return LocalTimes(
        tuple(Loop(MeasuredTime(**loop["time"]), loop["foreign_load"]) for loop in told["loops"])
    )


def measure_times(
    identity: RankIdentity, store: Store, *, budget_s: float = BUDGET_S
) -> LocalTimes:
    """Measure on the default process group, all ranks together. Every rank gets the same.

    By the job's ``store`` a rank that does not go on is named.
    """
    import torch

    control = Control(torch.device("cpu"), identity.world_size)
    started = time.monotonic()
    everything = batches(identity.world_size)
    for point in next(everything):
        # Unrecorded: connections are made and threads wake for the first time.
        _measure(identity, store, control, point, 1)
    seen: dict[tuple[str, str], dict[int, float]] = {}
    loops: list[Loop] = []
    for batch in everything:
        for point in batch:
            times = seen.setdefault((point.collective, point.dtype), {})
            iterations = _iterations(times, point.size_bytes)
            found = _measure(identity, store, control, point, iterations)
            times[point.size_bytes] = found[0].time.time_us
            loops += found
        # The slowest rank's clock decides, so that all stop together.
        (spent_s,) = control.largest([time.monotonic() - started])
        if _done(loops, spent_s, budget_s):
            break
    return LocalTimes(tuple(loops))


def _iterations(seen: Mapping[int, float], size_bytes: int) -> int:
    """Calls that take about LOOP_US, by what was seen at other sizes (bytes to µs)."""
    larger = [time_us for size, time_us in seen.items() if size >= size_bytes]
    if larger:
        expected_us = min(larger)
    elif seen:
        nearest = max(seen)
        expected_us = seen[nearest] * size_bytes / nearest
    else:
        return 2
    return min(max(round(LOOP_US / expected_us), 2), MOST_ITERATIONS)


def _done(loops: Sequence[Loop], spent_s: float, budget_s: float) -> bool:
    met = {(loop.time.collective, loop.time.size_bytes) for loop in loops}
    names = {name for name, _ in met}
    if any(sum(c == name for c, _ in met) < ENOUGH_SIZES for name in names):
        return False
    busy = LocalTimes(tuple(loops)).foreign_load > BUSY_HOST
    return spent_s >= budget_s * (1.5 if busy else 1.0)


def _measure(
    identity: RankIdentity, store: Store, control: Control, point: Point, iterations: int
) -> list[Loop]:
    """Two loops of ``iterations`` calls, each the slowest rank's time per call."""
    options = BenchOptions(iterations=iterations, warmup=1, check=False, deadline_s=DEADLINE_S)
    mine: list[float] = [0.0, 0.0]

    def keep(_point: Point, measured: Measurement, _slowest_us: list[float]) -> None:
        mine[0] = measured.time_us_loop  # on rank 0 alone; already the slowest rank's

    def keep_own(_point: Point, own_us: list[float]) -> None:
        mine[1] = statistics.fmean(own_us)

    before = cpu_times()
    measure_points(identity, [point], options, keep, store=store, on_samples=keep_own)
    after = cpu_times()
    told = control.gather(
        [
            *mine,
            after.mine_s - before.mine_s,
            after.everyone_s - before.everyone_s,
            after.clock_s - before.clock_s,
        ]
    )
    loop_us, each_us, *_ = (max(column) for column in zip(*told, strict=True))
    # All ranks must come to the same answer: rank 0's view of the host counts.
    foreign = foreign_share(
        told[0][3], sum(rank[2] for rank in told), told[0][4], os.cpu_count() or 1
    )
    return [Loop(_measured_time(point, time_us), foreign) for time_us in (loop_us, each_us)]


def _measured_time(point: Point, time_us: float) -> MeasuredTime:
    return MeasuredTime(
        point.collective, point.dtype, point.op, point.world_size, point.size_bytes, time_us
    )
