"""Pairs of runs with known truth, made from a seed. Noise as measured in repeated sweeps (between_runs.csv).

A run is a curve of real medians (graph mode, two H200), times what the run does to a collective in a band of
sizes, times what neighbouring sizes share, times what each point has alone, times what its iterations leave
unknown; a few points stray. Deviations of a pair of runs by band, from the same file: a collective's median
2.85, 0.85, 0.58 %, points around it 1.00, 0.52, 0.46 %; one run's are 1 / √2 of that.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.verdict.against.noise import band
from clusterlab.verdict.against.side import Side, Timed

FILE = Path(__file__).with_name("between_runs.csv")
OF_BAND = {"small": 0.0285, "mid": 0.0085, "large": 0.0058}
OF_POINT = {"small": 0.0100, "mid": 0.0052, "large": 0.0046}
HALF_WIDTH, AT_ITERATIONS = 0.003, 20
"""A median's 95 % interval over 20 replays of a graph: the file's median half width."""
NEIGHBOURS = 0.5
STRAY, FAR = 0.01, 0.0005
"""Shares of points that stray by some percent, and by several times (none of 550 did)."""


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to the second run: its times of ``where`` multiplied by ``factor``."""

    name: str
    factor: float
    where: Callable[[Timed], bool]


def measured(run: str) -> list[Timed]:
    """The points of one sweep of the file."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == run]
    return [
        Timed(
            collective=row["collective"],
            size_bytes=int(row["size_bytes"]),
            world_size=2,
            loop_us=float(row["loop_us"]),
            dtype=row["dtype"],
            in_place=row["in_place"] == "1",
            timing=row["timing"],
            p50_us=float(row["p50_us"]),
            low_us=float(row["low_us"]) if row["low_us"] else None,
            high_us=float(row["high_us"]) if row["high_us"] else None,
            iterations=int(row["samples"]),
        )
        for row in rows
    ]


def runs() -> list[str]:
    """The sweeps of the file, in its order."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return list(dict.fromkeys(row["run"] for row in csv.DictReader(file)))


def made_run(
    curve: Sequence[Timed],
    rng: random.Random,
    *,
    name: str,
    change: Change | None = None,
    iterations: int = AT_ITERATIONS,
    noise: float = 1.0,
) -> Side:
    """A run over ``curve``'s points; ``noise`` multiplies what runs and points differ by."""
    common = {b: rng.gauss(0, _own(s, noise)) for b, s in OF_BAND.items()}
    paces: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], float] = {}
    half = HALF_WIDTH * math.sqrt(AT_ITERATIONS / iterations)
    points = []
    for point in curve:
        at = band(point.size_bytes)
        key = (point.collective, at)
        pace = paces.setdefault(key, common[at] + rng.gauss(0, _own(OF_BAND[at], noise)))
        deviation = noise * OF_POINT[at] / math.sqrt(2)
        fresh = rng.gauss(0, deviation)
        near = NEIGHBOURS * last.get(key, fresh) + math.sqrt(1 - NEIGHBOURS**2) * fresh
        last[key] = near
        stray = rng.expovariate(1 / 0.03) if rng.random() < STRAY else 0.0
        if rng.random() < FAR:
            stray += math.log(rng.uniform(1.5, 5))
        factor = change.factor if change is not None and change.where(point) else 1.0
        assert point.p50_us is not None
        time_us = point.p50_us * factor * math.exp(pace + near + stray + rng.gauss(0, half / 1.96))
        points.append(
            replace(
                point,
                p50_us=time_us,
                loop_us=time_us * 1.01,
                low_us=time_us * (1 - half),
                high_us=time_us * (1 + half),
                iterations=iterations,
                wrong=0,
            )
        )
    machine = ("host/gpu0", "host/gpu1")
    return Side(name, tuple(points), run_id=name, machine=machine, backend="nccl", missing=0)


def _own(of_pair: float, noise: float) -> float:
    """Deviation of one of the two halves, common and a collective's own, of one run."""
    return noise * of_pair / 2


def everywhere(factor: float) -> Change:
    """All points."""
    return Change("everywhere", factor, lambda _: True)


def small_only(factor: float) -> Change:
    """All collectives below 64 KiB: the host, or the launch."""
    return Change("small sizes", factor, lambda p: band(p.size_bytes) == "small")


def of_collective(name: str, factor: float) -> Change:
    """One collective at all sizes."""
    return Change("one collective", factor, lambda p: p.collective == name)


def of_band(name: str, at: str, factor: float) -> Change:
    """One collective in one band."""
    return Change(
        f"one collective, {at}",
        factor,
        lambda p: p.collective == name and band(p.size_bytes) == at,
    )


def collectives(curve: Iterable[Timed]) -> list[str]:
    """The names in it, in order."""
    return list(dict.fromkeys(point.collective for point in curve))
