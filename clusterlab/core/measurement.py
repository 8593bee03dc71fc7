"""What measuring one point found: its times, its data check, the GPUs' state, what the library said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrongElement:
    """The first wrong element of a data check: on which rank, where, what was expected and got."""

    rank: int
    index: int
    expected: float
    got: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """The GPUs' state around a point, over all ranks. None: not known, or no GPUs.

    Lowest SM clock, highest temperature, why any was held back (NVML's throttle reasons, with commas).
    """

    gpu_clock_mhz: float | None = None
    gpu_temp_c: float | None = None
    throttled: str | None = None


@dataclass(frozen=True, slots=True)
class LibrarySaid:
    """What the library itself said of a point: what it chose, and the time (µs) that it expects.

    ``transport`` are the ways between its ranks (``P2P/CUMEM``, ``NET/IB``), joined by commas; ``gdr``
    whether NICs reach GPU memory directly. None: not known.
    """

    version: str | None = None
    driver_version: str | None = None
    algorithm: str | None = None
    protocol: str | None = None
    channels: int | None = None
    time_us: float | None = None
    transport: str | None = None
    gdr: bool | None = None


UNSAID = LibrarySaid()
"""Nothing is known of what the library did."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one point took.

    ``time_us_loop``: a loop of ``iterations`` calls without any event or clock inside, divided by
    ``iterations``; the slowest rank's (nccl-tests' figure). ``time_us_p50`` and the other quantiles
    come from a pass of their own, over ``samples`` iterations, each iteration being its slowest rank's time.
    Times of a ``ping_pong`` are half its round trip on the rank that begins it. ``cv`` is standard deviation
    over mean of the same samples. ``p50_low_us`` to ``p50_high_us`` hold the median with 95 %. ``outliers``
    are kept in all of these, and counted. ``rank_skew_us`` is the median of an iteration's slowest rank less
    its fastest, ``arrival_skew_us`` of the last rank's call less the first's, by one clock. ``stopped_by``:
    ``count`` (as many as asked for), ``confident`` or ``budget``. ``calls_per_graph`` are captured together;
    ``aggregated`` calls are one group; with ``blocking`` the host waits after each. ``memory``: whose
    allocator gave the GPU memory, ``nccl`` or ``torch``; None on CPUs. ``wrong`` counts wrong elements over
    all ranks; None when the check was off.
    """

    iterations: int
    warmup: int
    time_us_loop: float
    time_us_p50: float
    time_us_min: float
    time_us_max: float
    time_us_p95: float
    cv: float
    wrong: int | None
    first_wrong: WrongElement | None = None
    time_us_p99: float | None = None
    p50_low_us: float | None = None
    p50_high_us: float | None = None
    samples: int | None = None
    outliers: int | None = None
    rank_skew_us: float | None = None
    arrival_skew_us: float | None = None
    stopped_by: str = "count"
    calls_per_graph: int | None = None
    aggregated: int = 1
    blocking: bool = False
    memory: str | None = None
    conditions: Conditions = Conditions()
    said: LibrarySaid = UNSAID
