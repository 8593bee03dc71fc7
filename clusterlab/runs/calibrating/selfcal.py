"""The host's own constants, measured in a short run the first time and kept.

One file per host, torch version, backend and number of ranks under $XDG_CACHE_HOME/clusterlab
(~/.cache/clusterlab). Deleting it measures again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from clusterlab.core.errors import StorageError, UsageError
from clusterlab.cost.calibration import (
    Calibration,
    check_fits,
    load_calibration,
    save_calibration,
)
from clusterlab.cost.gloo.fit import fit_gloo
from clusterlab.cost.types import Constant
from clusterlab.runs.calibrating.calibration_run import (
    BUDGET_S,
    BUSY_HOST,
    LocalTimes,
    measure_local,
)
from clusterlab.topology.host import HostFacts, read_host

Progress = Callable[[str], None]


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
    if backend != "gloo":
        raise UsageError(
            f"no self-calibration for backend {backend}", expected="gloo", fix="predict without one"
        )
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
        busy = f"others used {measured.foreign_load:.0%} of the cores meanwhile"
        progress(f"the calibration is rough: {busy}")
        source += f" ({busy})"
    times = [loop.time for loop in measured.quietest()]
    constants, residuals = fit_gloo(times, cores=len(facts.cores), source=source)
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
