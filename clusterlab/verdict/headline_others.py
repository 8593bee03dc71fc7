"""The headline of runs that predict nothing: trainings, overlaps, soaks, bring-ups. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from clusterlab.core.bringup import Bringup
from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.core.sizes import human_size
from clusterlab.core.stepping import StepLine
from clusterlab.verdict.bringup import judged, spreads
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.judge import Judged
from clusterlab.verdict.soak import Soaked


def of_training(verdict: Verdict, steps: Sequence[StepLine], name: str) -> Headline:
    """What takes most of a step. The first step of an attempt warms up."""
    warm = [s for s in steps[1:] if s.attempt == steps[0].attempt] or list(steps)
    whole = sum(s.step_us for s in warm) or 1.0
    part, us = max(_parts(warm).items(), key=lambda one: one[1])
    mean_us = whole / len(warm)
    worst = f"A step takes {mean_us / 1e3:.4g} ms, and {us / whole:.0%} of it goes to {part}"
    predicted = steps[-1].predicted_us
    if predicted:
        worst += f"; it is {mean_us / predicted:.3g} times its prediction"
    return Headline(verdict, worst, "", f"clusterlab export trace {name}")


def _parts(steps: Sequence[StepLine]) -> dict[str, float]:
    axes = dict.fromkeys(axis for step in steps for axis in step.exposed_us)
    return {
        "data": sum(s.data_us for s in steps),
        "forward": sum(s.forward_us for s in steps),
        "backward": sum(s.backward_us for s in steps),
        **{
            f"exposed communication along {axis}": sum(s.exposed_us.get(axis, 0.0) for s in steps)
            for axis in axes
        },
        "the pipeline's bubble": sum(s.bubble_us for s in steps),
        "the optimizer": sum(s.optimizer_us for s in steps),
        "waiting for the slowest rank, and the rest": sum(s.other_us for s in steps),
    }


def of_overlaps(
    judged_run: Judged, overlaps: Sequence[Overlap], command: Sequence[str]
) -> Headline:
    """What is hidden least."""
    least = min(overlaps, key=lambda one: one.efficiency.value)
    worst = (
        f"Least hidden is {least.collective} beside {least.beside} at {human_size(least.size_bytes)}: "
        f"efficiency {least.efficiency.value:.2f} (1: wholly hidden), {least.exposed_us.value:,.4g} µs "
        "exposed"
    )
    reason = ""
    if least.slowdown.value > 1:
        reason = f"both want the same cores or memory: each takes {least.slowdown.value:.2f} and "
        reason += f"{least.other_slowdown.value:.2f} times as long as alone"
    again = shlex.join(command)
    if least.backend == "nccl" and least.max_ctas is None:
        again += " --max-ctas 4"
    return Headline(judged_run.verdict, worst, reason, again)


def of_soak(judged_run: Judged, points: Sequence[Soaked], command: Sequence[str]) -> Headline:
    """The point that drifts most; a soak that is too short is to be longer."""
    if not points:
        return Headline(judged_run.verdict, judged_run.reason, "", shlex.join(command))
    order = (Verdict.SLOW, Verdict.FAST_UNEXPECTED, Verdict.NO_VERDICT, Verdict.PASS)
    point = min(points, key=lambda p: (order.index(p.drift.verdict), -abs(p.drift.drift)))
    worst = f"{point.name}: {point.drift.reason}"
    reason = ", ".join(point.throttled)
    if not reason and abs(point.with_temperature or 0.0) > _FOLLOWS:
        reason = f"it follows the GPUs' temperature ({point.with_temperature:+.2f})"
    if judged_run.verdict == Verdict.PASS:
        return Headline(judged_run.verdict, worst, reason)
    advice = "soak longer: --for 1h"
    if judged_run.verdict == Verdict.SLOW:
        advice = "look at the GPUs' clocks and temperature: nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE"
    return Headline(judged_run.verdict, worst, reason, advice=advice)


_FOLLOWS = 0.5


def of_bringup(bringup: Bringup, command: Sequence[str]) -> Headline:
    """The phase that took longest, and what communicators leave behind."""
    found = spreads(bringup.ranks)
    total = next(one for one in found if one.phase == "total")
    phases = [one for one in found if one.phase not in ("total", "second_call")]
    worst = f"The first result came after {total.max_s:.3g} s"
    if phases:
        longest = max(phases, key=lambda one: one.max_s)
        worst += (
            f"; longest was {longest.phase.replace('_', ' ')} with {longest.max_s:.3g} s on rank "
            f"{longest.slowest.rank}"
        )
    said = judged(bringup)
    verdict = Verdict(said[0]) if said and said[0] in list(Verdict) else Verdict.NO_VERDICT
    reason = f"{said[0]}: {said[1]}" if said else ""
    again = shlex.join(command)
    if said is None:
        again += " --repeat-communicators 200"
    return Headline(verdict, f"{worst}; {reason}" if reason else worst, "", again)
