"""gloo among ranks that share a host's cores: a few measured constants and one formula.

    latency = message_us.<collective> × messages of the schedule
    work    = transport_us_per_MiB × MiB sent + copy_us_per_MiB × MiB copied + reduce_us_per_MiB × MiB reduced
    time    = (latency^p + work^p)^(1/p)           p = overlap, between 1 (one after the other) and 4

All constants are wall time with every rank of the calibrated world size busy on the host's cores, so
they hold for that world size. Messages have one constant per collective because what a message costs
depends on how many are under way at once (one wake-up serves many in an all_to_all, one in a tree);
bytes cost the same for all. A phase with fewer senders (or receivers) than cores leaves cores idle:
its bytes take cores / senders times as long.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.cost.calibration import Calibration
from clusterlab.cost.schedules.schedule import Phase, Schedule
from clusterlab.cost.types import Constant

MiB = float(1 << 20)

SLOW_REDUCTIONS: dict[tuple[str, str], str] = {
    ("float16", "sum"): "reduce_us_per_MiB.float16",
    ("float16", "minmax"): "reduce_us_per_MiB.float16",
    ("bfloat16", "sum"): "reduce_us_per_MiB.bfloat16",
    ("bfloat16", "minmax"): "reduce_us_per_MiB.bfloat16_minmax",
}
"""Element types whose reduction gloo does one element at a time; all others share the plain constant."""

PLAIN_REDUCTION = "reduce_us_per_MiB"


def message_constant(collective: str) -> str:
    """Name of the constant for one message of ``collective``: of one that is not calibrated, that of the
    one most like it (a root's messages go out or come in at once, as those of a broadcast's root).
    """
    return f"message_us.{_LIKE.get(collective, collective)}"


_LIKE = {
    "send": "send_recv",
    "ping_pong": "send_recv",
    "all_to_all_v": "all_to_all",
    "gather": "broadcast",
    "scatter": "broadcast",
}


def reduction_constant(dtype: str, op: str | None) -> str:
    """Name of the constant for reducing ``dtype`` with ``op``."""
    kind = "minmax" if op in ("min", "max") else "sum"
    return SLOW_REDUCTIONS.get((dtype, kind), PLAIN_REDUCTION)


def constant_names(schedule: Schedule, dtype: str, op: str | None) -> list[str]:
    """The constants that the time of ``schedule`` depends on."""
    names = [message_constant(schedule.collective), "transport_us_per_MiB", "overlap", "cores"]
    if schedule.copied_bytes:
        names.append("copy_us_per_MiB")
    if schedule.reduced_bytes:
        names.append(reduction_constant(dtype, op))
    return names


def messages(schedule: Schedule) -> int:
    """Messages that cost latency; a lone rank sends none and still makes the call."""
    return max(1, schedule.sends)


def effective_sent_MiB(schedule: Schedule, cores: float) -> float:
    """MiB sent, those of phases that cannot keep all cores busy counted for the idle ones too."""
    return sum(p.sent_bytes * max(1.0, cores / _busy(p)) for p in schedule.phases if p.flows) / MiB


def _busy(phase: Phase) -> int:
    return min(len({f.src for f in phase.flows}), len({f.dst for f in phase.flows}))


def combine(latency: float, work: float, overlap: float) -> float:
    """The p-norm of the two: their sum for overlap 1, nearly the larger for overlap 4. Monotone in both."""
    larger = max(latency, work)
    if larger <= 0:
        return 0.0
    total: float = (latency / larger) ** overlap + (work / larger) ** overlap
    return float(larger * total ** (1 / overlap))


@dataclass(frozen=True, slots=True)
class HostTime:
    """The formula's answer; ``bottleneck`` is busy for ``busy_us`` of it."""

    time_us: float
    bottleneck: str
    busy_us: float


def host_time(schedule: Schedule, calibration: Calibration, dtype: str, op: str | None) -> HostTime:
    """The formula above with the calibration's constants."""
    sent = effective_sent_MiB(schedule, calibration.value("cores"))
    work_us = sent * calibration.value("transport_us_per_MiB")
    if schedule.copied_bytes:
        work_us += schedule.copied_bytes / MiB * calibration.value("copy_us_per_MiB")
    if schedule.reduced_bytes:
        rate = calibration.value(measured_reduction(calibration, dtype, op))
        work_us += schedule.reduced_bytes / MiB * rate
    message_us = calibration.value(message_constant(schedule.collective)) * messages(schedule)
    time_us = combine(message_us, work_us, calibration.value("overlap"))
    if message_us >= work_us:
        return HostTime(time_us, "messages between the ranks", message_us)
    return HostTime(time_us, "cores copying", work_us)


def constants_used(
    schedule: Schedule, calibration: Calibration, dtype: str, op: str | None
) -> tuple[Constant, ...]:
    """Those constants, with their source."""
    own, measured = reduction_constant(dtype, op), measured_reduction(calibration, dtype, op)
    names = (measured if n == own else n for n in constant_names(schedule, dtype, op))
    return tuple(calibration.constant(name) for name in names)


def measured_reduction(calibration: Calibration, dtype: str, op: str | None) -> str:
    """The constant for reducing ``dtype``: its own, or the plain one where there was no time for it."""
    own = reduction_constant(dtype, op)
    return own if calibration.has(own) else PLAIN_REDUCTION
