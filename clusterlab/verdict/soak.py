"""A soak's passes, one series per point: does it drift, and does it follow the GPUs' temperature or clock?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.findings import Finding, Severity, Verdict
from clusterlab.core.sizes import human_size
from clusterlab.core.soaking import SoakPass
from clusterlab.verdict.drift import FALSE_ALARM, Drift, analyse, rank_correlation
from clusterlab.verdict.judge import Judged

TOLERANCE = 0.03
"""A change of the median by less of itself does not matter, unless somebody says otherwise."""

_GRAVITY = (Verdict.SLOW, Verdict.FAST_UNEXPECTED, Verdict.NO_VERDICT, Verdict.PASS)


@dataclass(frozen=True, slots=True)
class Soaked:
    """One point's passes: what they say, and rank correlations of their medians (None: not known).

    ``throttled`` are NVML's reasons that were seen in any pass.
    """

    name: str
    drift: Drift
    with_temperature: float | None
    with_clock: float | None
    throttled: tuple[str, ...]
    wrong: int

    def to_json(self) -> dict[str, Any]:
        """Plain data; an interval that is not known is null."""
        data = dataclasses.asdict(self)
        for name in ("low", "high", "per_hour_low", "per_hour_high"):
            if abs(data["drift"][name]) == float("inf"):
                data["drift"][name] = None
        return data


def soaked(passes: Iterable[SoakPass], tolerance: float = TOLERANCE) -> tuple[Soaked, ...]:
    """What every point's passes say, in order of first sight."""
    series: dict[tuple[object, ...], list[SoakPass]] = {}
    for one in passes:
        series.setdefault(one.key, []).append(one)
    # Bonferroni: one chance of a false alarm for all points together
    return tuple(_soaked(own, tolerance, FALSE_ALARM / len(series)) for own in series.values())


def _soaked(own: Sequence[SoakPass], tolerance: float, false_alarm: float) -> Soaked:
    own = sorted(own, key=lambda one: one.elapsed_s)
    medians = [one.time_us_p50 for one in own]
    first = own[0]
    words = (first.collective, first.dtype, first.op or "", human_size(first.size_bytes))
    reasons = {r for one in own if one.throttled for r in one.throttled.split(",")}
    return Soaked(
        name=" ".join(w for w in words if w),
        drift=analyse(
            [one.elapsed_s for one in own], medians, tolerance=tolerance, false_alarm=false_alarm
        ),
        with_temperature=_follows(medians, [one.gpu_temp_c for one in own]),
        with_clock=_follows(medians, [one.gpu_clock_mhz for one in own]),
        throttled=tuple(sorted(reasons)),
        wrong=sum(one.wrong or 0 for one in own),
    )


def _follows(medians: Sequence[float], values: Sequence[float | None]) -> float | None:
    known = [(m, v) for m, v in zip(medians, values, strict=True) if v is not None]
    return rank_correlation([m for m, _ in known], [v for _, v in known])


def soak_word(verdict: Verdict) -> str:
    """For people: what passes say beside each other is no speed against a prediction."""
    changed = verdict in (Verdict.SLOW, Verdict.FAST_UNEXPECTED)
    return "changed" if changed else verdict.value


def judge_soak(points: Sequence[Soaked]) -> Judged:
    """The gravest that any point's passes say."""
    if not points:
        return Judged(Verdict.NO_VERDICT, "no pass was finished")
    if any(point.wrong for point in points):
        names = ", ".join(point.name for point in points if point.wrong)
        return Judged(Verdict.INVALID, f"wrong data: {names}")
    worst = min((point.drift.verdict for point in points), key=_GRAVITY.index)
    said = [p for p in points if p.drift.verdict == worst]
    return Judged(worst, "; ".join(f"{p.name}: {p.drift.reason}" for p in said))


def soak_findings(points: Iterable[Soaked]) -> tuple[Finding, ...]:
    """A finding where some point changed while it was repeated."""
    changed = [p for p in points if p.drift.verdict in (Verdict.SLOW, Verdict.FAST_UNEXPECTED)]
    if not changed:
        return ()
    slow = any(p.drift.verdict == Verdict.SLOW for p in changed)
    return (
        Finding(
            code="SOAK_CHANGED",
            severity=Severity.ERROR if slow else Severity.WARNING,
            evidence=tuple(line for p in changed for line in _evidence(p)),
            fix="look at what else changed at that time: clocks and temperatures (nvidia-smi -q -d "
            "CLOCK,TEMPERATURE,PERFORMANCE), other jobs, link errors; then soak halves of the ranks",
        ),
    )


def _evidence(point: Soaked) -> list[str]:
    lines = [f"{point.name}: {point.drift.reason}"]
    for what, rho in (("temperature", point.with_temperature), ("clock", point.with_clock)):
        if rho is not None and abs(rho) >= 0.5:
            lines.append(f"its time follows the GPUs' {what}: rank correlation {rho:+.2f}")
    if point.throttled:
        lines.append(f"GPUs were held back: {', '.join(point.throttled)}")
    return lines


def tolerance_of(configuration: Mapping[str, Any]) -> float:
    """The tolerance that a run was configured with."""
    value = configuration.get("tolerance")
    if isinstance(value, (int, float)) and 0 <= value < math.inf:
        return float(value)
    return TOLERANCE
