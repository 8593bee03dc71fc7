"""Measure pairs of ranks by send and receive: disjoint pairs at the same time, each with its data check.

The calls are ``batch_isend_irecv`` on the default process group, which is right for both backends: gloo
connects all ranks when the group is made, and NCCL connects two ranks of the communicator at their first
message. Groups of two, or unbatched isend and irecv, would make NCCL build a communicator per pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.buffers import Arena, Buffers, shape_of
from clusterlab.bench.check import compare, corrupt_element, fill, poison
from clusterlab.bench.control import Control
from clusterlab.bench.data import Expected, sent
from clusterlab.bench.memory import refuse_too_large
from clusterlab.bench.ops import Call
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import (
    Bench,
    OnMeasured,
    OnSamples,
    current_device,
    measurement_of,
    point_label,
)
from clusterlab.bench.timing import timer_for
from clusterlab.bench.watchdog import Arrivals, Watchdog
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Measurement, Point, WrongElement
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store


@dataclass(frozen=True, slots=True)
class _Part:
    """This rank's part in a step."""

    point: Point
    peer: int
    sends: bool
    receives: bool
    first: bool

    @property
    def calls_per_time(self) -> float:
        """One-way messages in one call: the time of a ping-pong is half of its round trip."""
        return 2.0 if self.point.collective == "ping_pong" else 1.0


def measure_pairs(
    identity: RankIdentity,
    steps: Sequence[Sequence[Point]],
    options: BenchOptions,
    on_measured: OnMeasured,
    *,
    store: Store | None = None,
    on_samples: OnSamples | None = None,
) -> None:
    """Measure ``steps`` in order over the default process group; all ranks pass the same list.

    The points of a step run at the same time: pairs of ranks (``Point.ranks``), none in two of them.
    Ranks in none wait. Times are those of the pair's slower rank, of a ping-pong those of its first.
    Everything else is as in ``runner.measure_points``: devices, ``store``, deadline, errors.
    """
    points = [point for step in steps for point in step]
    if not points:
        return
    _refuse_unseen_corruption(points, options, identity.world_size)
    device = current_device()
    control = Control(device, identity.world_size)
    arrivals = Arrivals(store, identity.rank, identity.world_size)
    with Watchdog(options.deadline_s, identity.rank, arrivals) as watchdog:
        with watchdog.guard(0, "start of the pairs"):
            refuse_too_large(points, identity, control)
        bench = Bench(identity, options, Arena(points, device), control, timer_for(device))
        for number, step in enumerate(steps, start=1):
            part = _part(step, identity.rank)
            label = point_label(part.point if part else step[0])
            with watchdog.guard(number, label if part else f"waiting for {label}"):
                own_us, told = _measure(bench, part)
            if part is not None and on_samples is not None:
                on_samples(part.point, own_us)
            if identity.rank == 0:
                for point in step:
                    on_measured(point, *_joined(point, told, options))


def _refuse_unseen_corruption(
    points: Sequence[Point], options: BenchOptions, world_size: int
) -> None:
    """A test's ``corrupt`` must hit an element of every point that its rank receives in."""
    if options.corrupt is None:
        return
    rank, index = options.corrupt
    smallest = min(shape_of(point).recv_elements for point in points)
    if not (0 <= rank < world_size and 0 <= index < smallest):
        raise UsageError(
            f"{rank}:{index}",
            where="corrupt",
            expected=f"a rank below {world_size} and an index below {smallest}",
        )


def _part(step: Sequence[Point], rank: int) -> _Part | None:
    for point in step:
        if point.ranks is not None and rank in point.ranks:
            first, second = point.ranks
            one_way = point.collective == "send"
            return _Part(
                point,
                peer=second if rank == first else first,
                sends=rank == first or not one_way,
                receives=rank == second or not one_way,
                first=rank == first,
            )
    return None


def _bind(part: _Part, buffers: Buffers) -> Call:
    import torch.distributed as dist

    outgoing = [dist.P2POp(dist.isend, buffers.send, part.peer)] if part.sends else []
    incoming = [dist.P2POp(dist.irecv, buffers.recv, part.peer)] if part.receives else []
    if part.point.collective == "ping_pong":
        batches = [outgoing, incoming] if part.first else [incoming, outgoing]
    else:
        batches = [outgoing + incoming]

    def exchange() -> None:
        for batch in batches:
            for work in dist.batch_isend_irecv(batch):
                work.wait()

    return exchange


def _measure(bench: Bench, part: _Part | None) -> tuple[list[float], list[list[float]]]:
    """This rank's own iteration times, and what every rank tells: loop, iterations, check."""
    options, control = bench.options, bench.control
    if part is None:
        control.barrier()
        control.barrier()
        return [], control.gather([0.0] * (1 + options.iterations + 4))
    buffers = bench.arena.buffers(part.point, 0)
    call = _bind(part, buffers)
    _reset(part, buffers, bench.identity)
    for _ in range(options.warmup):
        call()
    bench.timer.finish()

    control.barrier()
    loop_us = bench.timer.loop_us(call, options.iterations) / part.calls_per_time
    control.barrier()
    each_us = bench.timer.each_us(call, options.iterations)
    own_us = [time_us / part.calls_per_time for time_us in each_us]
    found = _check(part, buffers, call, bench) if options.check else (0.0, -1.0, 0.0, 0.0)
    return own_us, control.gather([loop_us, *own_us, *found])


def _reset(part: _Part, buffers: Buffers, identity: RankIdentity) -> None:
    poison(buffers.recv, part.point.dtype)
    fill(buffers.send, sent(identity.rank, identity.world_size, part.point.dtype, None))


def _check(
    part: _Part, buffers: Buffers, call: Call, bench: Bench
) -> tuple[float, float, float, float]:
    """Exchange once on fresh data: wrong elements on this rank; index, expected and got of the first."""
    _reset(part, buffers, bench.identity)
    call()
    if not part.receives:
        return (0.0, -1.0, 0.0, 0.0)
    corrupt = bench.options.corrupt
    if corrupt is not None and corrupt[0] == bench.identity.rank:
        corrupt_element(buffers.recv, corrupt[1])
    expected = Expected(sent(part.peer, bench.identity.world_size, part.point.dtype, None))
    wrong, first = compare(buffers.recv, expected, 0)
    index, wanted, got = first or (-1, 0.0, 0.0)
    return (float(wrong), float(index), wanted, got)


def _joined(
    point: Point, told: Sequence[Sequence[float]], options: BenchOptions
) -> tuple[Measurement, list[float]]:
    """The pair's Measurement, and the iteration times it rests on, from what all ranks told."""
    assert point.ranks is not None, "pairs name their ranks"
    clocks = point.ranks[:1] if point.collective == "ping_pong" else point.ranks
    end = 1 + options.iterations
    loop_us, *slowest_us = (
        max(times) for times in zip(*(told[r][:end] for r in clocks), strict=True)
    )
    checks = {r: told[r][end:] for r in sorted(point.ranks)}
    first = next(
        (
            WrongElement(r, int(index), want, got)
            for r, (n, index, want, got) in checks.items()
            if n
        ),
        None,
    )
    wrong = int(sum(check[0] for check in checks.values())) if options.check else None
    return measurement_of(options, loop_us, slowest_us, wrong, first), slowest_us
