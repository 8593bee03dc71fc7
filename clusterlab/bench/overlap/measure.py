"""Measure pairs of a collective and what runs beside it, on an initialised process group."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.bench.agreed_check import Outcome, check_together
from clusterlab.bench.buffers import Arena, Buffers
from clusterlab.bench.check import reset
from clusterlab.bench.control import Control
from clusterlab.bench.labels import point_label
from clusterlab.bench.memory import bytes_per_rank, gpu_free_bytes, host_free_bytes
from clusterlab.bench.opening import current_device
from clusterlab.bench.ops import Operation, bind
from clusterlab.bench.overlap.calls import Start, starter
from clusterlab.bench.overlap.clocks import Clock, clock_for
from clusterlab.bench.overlap.compute import Products, check_products, sized
from clusterlab.bench.overlap.figures import Round
from clusterlab.bench.watchdog import Aftermath, Watchdog
from clusterlab.core.errors import UsageError
from clusterlab.core.overlap import COMPUTE, MATMUL_SIDES
from clusterlab.core.rows import Point
from clusterlab.core.sizes import human_size
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup, Store

_WARMUP = 3
_USABLE_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class OverlapOptions:
    """``rounds`` are measured of each pair. ``side`` of the matrices (None: by the collective's time).

    ``max_ctas`` (NCCL): thread blocks that one call may use at most, so that as many SMs are taken from
    the compute; None leaves it to NCCL. ``corrupt`` is for tests only: (rank, index), as in BenchOptions.
    """

    rounds: int = 30
    check: bool = True
    deadline_s: float = 600.0
    side: int | None = None
    max_ctas: int | None = None
    corrupt: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"{self.rounds}", where="rounds", expected="at least 1")
        low, high = MATMUL_SIDES
        if self.side is not None and not low <= self.side <= high:
            raise UsageError(f"{self.side}", where="side", expected=f"{low} to {high}")
        if self.max_ctas is not None and not 1 <= self.max_ctas <= 64:
            raise UsageError(f"{self.max_ctas}", where="max_ctas", expected="1 to 64")


@dataclass(frozen=True, slots=True)
class Pair:
    """A collective and what runs beside it: another collective, or None for compute."""

    point: Point
    other: Point | None

    @property
    def beside(self) -> str:
        """What runs beside the collective."""
        return self.other.collective if self.other else COMPUTE


@dataclass(frozen=True, slots=True)
class Overlapped:
    """What a pair took: every round's times (µs a call) on the slowest rank of each, and the checks."""

    pair: Pair
    rounds: tuple[Round, ...]
    calls: int
    compute: str | None
    checked: Outcome | None
    other_checked: Outcome | None


OnOverlapped = Callable[[Overlapped], None]


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two: what starts it, and what is needed to check it."""

    start: Start
    point: Point | None = None
    buffers: Buffers | None = None
    compute: Products | None = None


def measure_overlap(
    identity: RankIdentity,
    pairs: Sequence[Pair],
    options: OverlapOptions,
    on_overlapped: OnOverlapped,
    *,
    store: Store | None = None,
    aftermath: Aftermath | None = None,
) -> None:
    """Measure ``pairs`` in order; all ranks pass the same list. ``on_overlapped`` is called on rank 0.

    Each side has a process group of its own. In a round each side runs alone and then both at once, in
    an order that turns from round to round, so that drift hits all three alike.

    Raises UsageError where memory cannot hold both sides' buffers, DeadlineError when a rank is lost.
    """
    if not pairs:
        return
    device = current_device()
    control = Control(device, identity.world_size)
    with Watchdog(identity, options.deadline_s, store, aftermath) as watchdog:
        with watchdog.guard(0, "start of the overlap"):
            _refuse_too_large(pairs, identity, control)
            groups = [_new_group(device, options.max_ctas) for _ in range(2)]
            arenas = (
                Arena([p.point for p in pairs], device),
                Arena([p.other for p in pairs if p.other], device),
            )
            clock = clock_for(device)
        bench = _Bench(identity.rank, options, control, clock, groups, arenas)
        try:
            for number, pair in enumerate(pairs, start=1):
                with watchdog.guard(number, f"{point_label(pair.point)} beside {pair.beside}"):
                    done = _measure(bench, pair)
                if identity.rank == 0:
                    on_overlapped(done)
        finally:
            clock.close()


@dataclass(frozen=True, slots=True)
class _Bench:
    """What stays the same for all pairs."""

    rank: int
    options: OverlapOptions
    control: Control
    clock: Clock
    groups: Sequence[ProcessGroup]
    arenas: tuple[Arena, Arena]


def _measure(bench: _Bench, pair: Pair) -> Overlapped:
    control, clock, options = bench.control, bench.clock, bench.options
    side = _collective_side(bench, pair.point, 0)
    _warm_up(clock, side.start)
    (alone_us,) = control.largest([_settled_us(clock, control, side.start)])
    calls = clock.calls(alone_us)
    (alone_us,) = control.largest([_settled_us(clock, control, side.start, calls)])
    if pair.other is None:
        compute = sized(alone_us, control, options.side)
        other = _Side(_as_start(compute), compute=compute)
    else:
        other = _collective_side(bench, pair.other, 1)
    _warm_up(clock, other.start)
    clock.together(side.start, other.start, calls)

    rounds = [
        _round(bench, (side.start, other.start), calls, number) for number in range(options.rounds)
    ]
    flat = [v for r in rounds for v in (r.alone, r.other_alone, r.beside, r.other_beside, r.both)]
    slowest = control.largest(flat)
    checked, other_checked = _check(bench, side, other) if options.check else (None, None)
    return Overlapped(
        pair=pair,
        rounds=tuple(_rounds_of(slowest)),
        calls=calls,
        compute=other.compute.text if other.compute else None,
        checked=checked,
        other_checked=other_checked,
    )


def _rounds_of(flat: Sequence[float]) -> list[Round]:
    rounds = []
    for i in range(0, len(flat), 5):
        alone, other_alone, beside, other_beside, both = flat[i : i + 5]
        rounds.append(Round(alone, other_alone, both, beside, other_beside))
    return rounds


def _round(bench: _Bench, sides: tuple[Start, Start], calls: int, number: int) -> Round:
    """This rank's times of one round."""
    clock, (side, other) = bench.clock, sides
    alone = other_alone = beside = other_beside = 0.0
    for step in range(3):
        bench.control.barrier()
        match (step + number) % 3:
            case 0:
                alone = clock.alone(side, calls)
            case 1:
                other_alone = clock.alone(other, calls)
            case _:
                beside, other_beside = clock.together(side, other, calls)
    return Round(alone, other_alone, max(beside, other_beside), beside, other_beside)


def _settled_us(clock: Clock, control: Control, side: Start, calls: int = 1) -> float:
    times = []
    for _ in range(5):
        control.barrier()
        times.append(clock.alone(side, calls))
    return statistics.median(times)


def _warm_up(clock: Clock, side: Start) -> None:
    for _ in range(_WARMUP):
        clock.alone(side, 1)


def _collective_side(bench: _Bench, point: Point, which: int) -> _Side:
    buffers = bench.arenas[which].buffers(point, bench.rank)
    reset(point, buffers, bench.rank)
    bench.clock.finish()
    start = starter(point, buffers, bench.rank, bench.groups[which])
    return _Side(start, point, buffers)


def _as_start(compute: Products) -> Start:
    def start() -> tuple[()]:
        compute()
        return ()

    return start


def _check(bench: _Bench, side: _Side, other: _Side) -> tuple[Outcome | None, Outcome | None]:
    """Both sides' data after calls of both at once, first the one looked at, then the other."""

    def both() -> None:
        bench.clock.together(side.start, other.start, 1)
        bench.clock.finish()

    outcomes: list[Outcome | None] = []
    for one in (side, other):
        bench.clock.finish()
        if one.compute is not None:
            outcomes.append(check_products(one.compute, both, bench.control))
            continue
        assert one.point is not None and one.buffers is not None
        operation = Operation(both, bind(one.point, one.buffers, bench.rank).stage)
        corrupt = bench.options.corrupt if one is side else None
        outcomes.append(
            check_together(
                one.point, one.buffers, operation, bench.rank, bench.control, corrupt=corrupt
            )
        )
    return outcomes[0], outcomes[1]


def _new_group(device: torch.device, max_ctas: int | None) -> ProcessGroup:
    """A process group of all ranks, with communicators, threads and streams of its own."""
    import torch.distributed as dist

    options: Any = None
    if device.type == "cuda" and max_ctas is not None:
        options = dist.ProcessGroupNCCL.Options()
        options.config.max_ctas = max_ctas
        options.config.min_ctas = min(max_ctas, 1)
    group: ProcessGroup = dist.new_group(pg_options=options)
    return group


def _refuse_too_large(pairs: Sequence[Pair], identity: RankIdentity, control: Control) -> None:
    """Raise UsageError, on every rank alike, when memory cannot hold both sides. A collective call."""
    on_gpu = control.device.type == "cuda"
    backend = "nccl" if on_gpu else "gloo"
    free = gpu_free_bytes() if on_gpu else host_free_bytes() / identity.local_world_size
    (negative,) = control.largest([-free])
    first = max(bytes_per_rank(p.point, backend) for p in pairs)
    second = max((bytes_per_rank(p.other, backend) for p in pairs if p.other), default=0)
    if first + second > -negative * _USABLE_SHARE:
        raise UsageError(
            f"the buffers of both need {human_size(first + second)} on each rank, and "
            f"{human_size(-negative)} is free",
            where="size",
            fix="choose a smaller -e",
        )
