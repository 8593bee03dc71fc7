"""Labelled curves: 200 with one known change each, and healthy ones; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clusterlab.cost.scoring.measured import MeasuredPoint
from tests.benchmarks.why_bases import Base, drawn_base, published_bases
from tests.benchmarks.why_faults import FAULTS, Fault

SHOWS = 1.25
_SHOWS_AT = 3
"""A fault counts when it slows three sizes by so much (a cold start: one row by half): less is within what
sites of one class differ by, and no judge of a single table should accuse it."""

_PUBLISHED_SHARE = 0.35
_TRIES = 4000


@dataclass(frozen=True, slots=True)
class LabelledCurve:
    """``points`` is all that a judge sees. ``code`` is the truth, empty for a healthy curve; ``alike`` are
    codes that give the same curve; ``base`` names the published table below it, if there is one.
    """

    points: tuple[MeasuredPoint, ...]
    code: str
    story: str
    alike: tuple[str, ...] = ()
    base: str = ""

    @property
    def machine(self) -> str:
        """For people."""
        p = self.points[0]
        return f"{p.n_nodes}x{p.gpus_per_node} {p.gpu} {p.collective} n={p.n_ranks}"


def labelled_curves(
    seed: int, faulty: int = 200, healthy: int = 100, shared: Path | None = None
) -> list[LabelledCurve]:
    """``faulty`` curves, each cause by its weight, then ``healthy`` drawn ones. ``shared``: the folder of
    published tables, on which a third of the faults is put, or None.
    """
    draw = random.Random(seed)
    published = published_bases(shared)
    causes = [fault for fault, count in counts_of(faulty) for _ in range(count)]
    curves = [_faulty(fault, draw, published) for fault in causes]
    curves += [
        _named(LabelledCurve(drawn_base(draw).points, "", "healthy")) for _ in range(healthy)
    ]
    return [
        replace(one, points=tuple(replace(p, table=f"t{i:04d}") for p in one.points))
        for i, one in enumerate(curves)
    ]


def counts_of(total: int) -> list[tuple[Fault, int]]:
    """How many curves of each cause; largest remainders."""
    whole = sum(fault.weight for fault in FAULTS)
    shares = [fault.weight * total / whole for fault in FAULTS]
    counts = [int(share) for share in shares]
    by_rest = sorted(range(len(FAULTS)), key=lambda i: counts[i] - shares[i])
    for i in by_rest[: total - sum(counts)]:
        counts[i] += 1
    return list(zip(FAULTS, counts, strict=True))


def _faulty(fault: Fault, draw: random.Random, published: Sequence[Base]) -> LabelledCurve:
    suited = [base for base in published if fault.fits(base)]
    real = bool(suited) and draw.random() < _PUBLISHED_SHARE
    for _ in range(_TRIES):
        base = draw.choice(suited) if real else drawn_base(draw)
        if not fault.fits(base):
            continue
        made = fault.make(base, draw)
        if _shows(fault, base, made.times_us):
            points = tuple(
                replace(p, time_us=t) for p, t in zip(base.points, made.times_us, strict=True)
            )
            return _named(LabelledCurve(points, fault.code, made.story, made.alike, base.published))
    raise AssertionError(f"no base on which {fault.code} shows in {_TRIES} tries")


def _shows(fault: Fault, base: Base, times_us: Sequence[float]) -> bool:
    slower = [t / healthy for t, healthy in zip(times_us, base.times_us, strict=True)]
    if fault.code == "COLD_START_OR_WARMUP":
        return max(slower) >= 1.5
    if fault.code == "LIBRARY_BUG":
        return sum(by >= SHOWS for by in slower) >= 2
    return len({s for s, by in zip(base.sizes, slower, strict=True) if by >= SHOWS}) >= _SHOWS_AT


def _named(curve: LabelledCurve) -> LabelledCurve:
    """Without the words that would give a published table away."""
    return replace(
        curve, points=tuple(replace(p, published=False, samples=1) for p in curve.points)
    )
