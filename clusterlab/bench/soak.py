"""Measure the same points over and over until a time is up, somebody asks to stop, or data is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterlab.bench.control import Control
from clusterlab.bench.labels import point_label
from clusterlab.bench.opening import check_sweep, close_bench, current_device, open_bench
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.step import measure_step
from clusterlab.bench.watchdog import Aftermath, Watchdog
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point
from clusterlab.launch.identity import RankIdentity

if TYPE_CHECKING:
    from torch.distributed import Store

OnPass = Callable[[int, Sequence[tuple[Point, Measurement]]], None]
"""Rank 0 only: the number of the pass, from 1, and what each of its points took."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Why a soak ended: ``time`` (up), ``asked`` (by a signal) or ``wrong`` (data); its passes."""

    why: str
    passes: int


def measure_soak(
    identity: RankIdentity,
    points: Sequence[Point],
    options: BenchOptions,
    on_pass: OnPass,
    *,
    duration_s: float,
    stop_asked: Callable[[], bool] = lambda: False,
    store: Store | None = None,
    aftermath: Aftermath | None = None,
) -> Ended:
    """Measure ``points`` pass by pass for ``duration_s``; all ranks pass the same list.

    ``stop_asked`` is looked at between points, on every rank: one that is asked stops all, after the same
    point; the pass in hand is then not counted. Wrong data ends the soak with that pass. Each pass warms
    up, loops, times calls one by one and checks, as a sweep does (``options``).
    """
    steps = [(point,) for point in points]
    check_sweep(steps, options, identity.world_size)
    control = Control(current_device(), identity.world_size)
    number = 0
    began = time.monotonic()
    with Watchdog(identity, options.deadline_s, store, aftermath) as watchdog:
        with watchdog.guard(0, "start of the soak"):
            bench = open_bench(identity, steps, options)
        guarded = 0
        why = ""
        while not why:
            measured: list[tuple[Point, Measurement]] = []
            for step in steps:
                guarded += 1
                with watchdog.guard(guarded, f"{point_label(step[0])}, pass {number + 1}"):
                    done, _ = measure_step(bench, step)
                    measured += [(one.point, one.measurement) for one in done]
                    why = _agreed(control, stop_asked(), time.monotonic() - began >= duration_s)
                if any(m.wrong for _, m in measured):
                    why = "wrong"
                if why in ("wrong", "asked"):
                    break
            if len(measured) == len(steps) or why == "wrong":
                number += 1
                if identity.rank == 0:
                    on_pass(number, measured)
        with watchdog.guard(guarded + 1, "end of the soak"):
            close_bench(bench)
    return Ended(why, number)


def _agreed(control: Control, asked: bool, over: bool) -> str:
    """Why to stop, on all ranks alike; empty: go on."""
    some_asked, some_over = control.largest([float(asked), float(over)])
    return "asked" if some_asked else "time" if some_over else ""
