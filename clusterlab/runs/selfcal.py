"""The host's own constants, measured in a short run the first time and kept.

One file per host, torch version, backend and number of ranks under $XDG_CACHE_HOME/clusterlab
(~/.cache/clusterlab). Deleting it measures again.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from clusterlab.bench.control import Control
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_points
from clusterlab.core.errors import DeadlineError, StorageError, UsageError
from clusterlab.core.rows import Measurement, Point
from clusterlab.cost.calibration import (
    Calibration,
    check_fits,
    load_calibration,
    save_calibration,
)
from clusterlab.cost.fit_gloo import MeasuredTime, fit_gloo
from clusterlab.cost.types import Constant
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_rank import OpenStore
from clusterlab.launch.rendezvous import init_process_group
from clusterlab.runs.calibration_plan import ENOUGH_SIZES, SIZES_BYTES, batches
from clusterlab.runs.foreign_load import CpuTimes, cpu_times, foreign_share
from clusterlab.topology.host import HostFacts, read_host

Progress = Callable[[str], None]

BUSY_HOST = 0.25
"""Share of the cores used by others from which on a calibration is called rough."""

BUDGET_S = 15.0
"""Measuring stops at the first batch that ends after this, once enough sizes were met."""

JOIN_TIMEOUT_S = 60.0
DEADLINE_S = 120.0
LOOP_US = 40_000.0
MOST_ITERATIONS = 20
MOST_PASSES = 6


@dataclass(frozen=True, slots=True)
class LocalTimes:
    """What a calibration run measured; ``foreign_load``: share of the cores that others used meanwhile."""

    times: tuple[MeasuredTime, ...]
    foreign_load: float


def load_or_calibrate(
    world_size: int,
    backend: str = "gloo",
    *,
    progress: Progress,
    facts: HostFacts | None = None,
    budget_s: float = BUDGET_S,
) -> Calibration:
    """This host's constants for ``world_size`` ranks: those kept, or measured now and kept.

    Starts ranks of its own when it measures; call it where ``run_local_ranks`` may be called.
    ``progress`` gets lines for people. Raises UsageError for a backend that has no self-calibration and
    DeadlineError when the measuring ranks die.
    """
    facts = facts or read_host()
    kept = kept_calibration(facts, world_size, backend, progress=progress)
    if kept is not None:
        return kept
    _refuse_other_backends(backend)
    progress(
        f"calibrating {world_size} {backend} ranks on {facts.description}: about {budget_s:.0f} s, once"
    )
    measured = measure_local(world_size, backend, budget_s=budget_s)
    return fit_and_keep(measured, facts, world_size, backend, progress=progress)


def kept_calibration(
    facts: HostFacts, world_size: int, backend: str, *, progress: Progress
) -> Calibration | None:
    """The constants kept for this host and so many ranks; None when there are none that can be used."""
    path = calibration_path(facts, world_size, backend)
    if not path.exists():
        return None
    try:
        kept = load_calibration(path)
        check_fits(kept, backend=backend, fingerprint=facts.fingerprint, system=facts.description)
    except UsageError as error:
        progress(f"calibrating again: {error}")
        return None
    return kept


def fit_and_keep(
    measured: LocalTimes,
    facts: HostFacts,
    world_size: int,
    backend: str,
    *,
    progress: Progress,
) -> Calibration:
    """Constants from what ``measure_times`` measured on this host, kept for the next run.

    A cache that cannot be written is said, not raised.
    """
    now = datetime.now(UTC)
    source = f"self-calibration {now:%Y-%m-%d}, {world_size} ranks on {facts.description}"
    if measured.foreign_load > BUSY_HOST:
        busy = f"other processes used {measured.foreign_load:.0%} of the cores meanwhile"
        progress(f"the calibration is rough: {busy}")
        source += f" ({busy})"
    constants, residuals = fit_gloo(measured.times, cores=len(facts.cores), source=source)
    fresh = Calibration(
        system=facts.description,
        fingerprint=facts.fingerprint,
        backend=backend,
        library=f"torch {torch_version()}",
        world_sizes=(world_size, world_size),
        sizes_bytes=(1 << 10, 16 << 20),
        date_utc=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        constants=(*constants, Constant("core_copy_GBps", core_copy_GBps(), "GB/s", source)),
        residuals=residuals,
        source=source,
    )
    try:
        save_calibration(fresh, calibration_path(facts, world_size, backend))
    except StorageError as error:
        progress(f"the calibration is used but not kept: {error}")
    return fresh


def _refuse_other_backends(backend: str) -> None:
    if backend != "gloo":
        raise UsageError(
            f"no self-calibration for backend {backend}", expected="gloo", fix="predict without one"
        )


def calibration_path(facts: HostFacts, world_size: int, backend: str) -> Path:
    """Where the constants for this host, torch version, backend and number of ranks are kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clusterlab"
    return root / f"{backend}-{facts.fingerprint}-torch{torch_version()}-{world_size}ranks.yaml"


def torch_version() -> str:
    """The installed torch, without importing it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "-none"


def core_copy_GBps() -> float:
    """What one core copies at best: the fastest of many copies within its cache. For the bound."""
    import numpy as np

    best = 0.0
    for size in (32 << 10, 256 << 10, 1 << 20):
        source, target = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        repeats = (8 << 20) // size
        for _ in range(8):
            start_ns = time.perf_counter_ns()
            for _ in range(repeats):
                np.copyto(target, source)
            best = max(best, repeats * size / (time.perf_counter_ns() - start_ns))
    return best


def measure_local(world_size: int, backend: str, *, budget_s: float) -> LocalTimes:
    """Start ranks on this host and measure the calibration's points. Raises what ended the ranks."""
    with tempfile.TemporaryDirectory(prefix="clusterlab-cal-") as folder:
        kept = Path(folder) / "times.jsonl"

        def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
            import torch.distributed as dist

            store = open_store(JOIN_TIMEOUT_S)
            init_process_group(identity, store, backend, timeout_s=JOIN_TIMEOUT_S)
            measured = measure_times(identity, budget_s=budget_s)
            if identity.rank == 0:
                kept.write_text(json.dumps(asdict(measured)))
            dist.destroy_process_group()
            return 0

        outcome = run_local_ranks(world_size, rank_main, log_dir=Path(folder))
        if outcome.exit_code:
            raise DeadlineError(f"the self-calibration failed: {outcome.message}")
        told = json.loads(kept.read_text())
    return LocalTimes(tuple(MeasuredTime(**t) for t in told["times"]), told["foreign_load"])


def measure_times(identity: RankIdentity, *, budget_s: float) -> LocalTimes:
    """Measure on the default process group, all ranks together, until the budget is spent.

    Every rank gets the same.
    """
    import torch

    control = Control(torch.device("cpu"), identity.world_size)
    times: list[MeasuredTime] = []
    last_us: dict[str, float] = {}
    before = cpu_times()
    for count, batch in enumerate(batches(identity.world_size), start=1):
        for point in batch:
            measured_us = _measure(identity, control, point, last_us.get(point.collective))
            last_us[point.collective] = measured_us[0]
            times += [_measured_time(point, time_us) for time_us in measured_us]
        # The slowest rank's clock decides, so that all stop together.
        (spent_s,) = control.largest([time.monotonic() - before.clock_s])
        if count >= ENOUGH_SIZES and (
            spent_s >= budget_s or count >= MOST_PASSES * len(SIZES_BYTES)
        ):
            break
    return LocalTimes(tuple(times), _foreign(before, control))


def _foreign(before: CpuTimes, control: Control) -> float:
    """Share of the host's cores that others used since ``before``, as rank 0 saw it."""
    after = cpu_times()
    mine_s = control.gather([after.mine_s - before.mine_s])
    seen = foreign_share(
        after.everyone_s - before.everyone_s,
        sum(m[0] for m in mine_s),
        after.clock_s - before.clock_s,
        os.cpu_count() or 1,
    )
    return control.gather([seen])[0][0]


def _measure(
    identity: RankIdentity, control: Control, point: Point, last_us: float | None
) -> list[float]:
    """µs per call of two loops, each the slowest rank's. Calls last about LOOP_US in all: scheduling
    noise of single calls is larger than what is to be measured.
    """
    iterations = 2 if last_us is None else round(LOOP_US / last_us)
    options = BenchOptions(
        iterations=min(max(iterations, 2), MOST_ITERATIONS),
        warmup=1,
        check=False,
        deadline_s=DEADLINE_S,
    )
    mine: list[float] = [0.0, 0.0]

    def keep(_point: Point, measured: Measurement, _slowest_us: list[float]) -> None:
        mine[0] = measured.time_us_loop  # on rank 0 alone; already the slowest rank's

    def keep_own(_point: Point, own_us: list[float]) -> None:
        mine[1] = statistics.fmean(own_us)

    measure_points(identity, [point], options, keep, on_samples=keep_own)
    return control.largest(mine)


def _measured_time(point: Point, time_us: float) -> MeasuredTime:
    return MeasuredTime(
        point.collective, point.dtype, point.op, point.world_size, point.size_bytes, time_us
    )
