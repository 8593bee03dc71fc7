"""The answer of ``clusterlab predict``: a table with notes, or data for JSON."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clusterlab.cli.columns import columns
from clusterlab.core.sizes import human_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterlab.cost.nccl.explain import Explanation
    from clusterlab.cost.nccl.variable_effects import VariableEffect
    from clusterlab.runs.whatif import PredictedPoint


def as_data(
    found: Sequence[PredictedPoint],
    why: Explanation | None,
    effects: tuple[VariableEffect, ...],
    table: list[str],
) -> list[dict[str, Any]]:
    """An object a point; the last one has what --explain and --tuning ask for."""
    points = [{**asdict(one.point), **_predicted(one)} for one in found]
    if why is not None:
        points[-1]["explanation"] = _finite(
            {**asdict(why), "variables": [asdict(effect) for effect in effects]}
        )
    if table:
        points[-1]["tuning_table"] = table
    return points


def _predicted(one: PredictedPoint) -> dict[str, Any]:
    algbw_GBps, busbw_GBps = _rates_GBps(one)
    rates = {"algbw_GBps": algbw_GBps, "busbw_GBps": busbw_GBps}
    found: dict[str, Any] = _finite({**asdict(one.prediction), **rates})
    return found


def _finite(value: Any) -> Any:
    """JSON has no Infinity: a bandwidth that nothing limits is null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_LAYOUT = ("<14", ">8", ">9", ">7", ">7", ">7", "<16", "<0")
_EXPECTED = ">18"
"""Where an interval stands, behind the time."""


def table_lines(found: Sequence[PredictedPoint]) -> list[str]:
    """A line a point under two of titles, with a column for intervals where there are any."""
    rows = [
        ["collective", "size", "time", "algbw", "busbw", "bound", "how", "limited by"],
        ["", "", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "", ""],
        *map(_row, found),
    ]
    layout = list(_LAYOUT)
    if any(one.prediction.interval is not None for one in found):
        for row, cell in zip(rows, ("expected", "(us)", *map(_interval, found)), strict=True):
            row.insert(3, cell)
        layout.insert(3, _EXPECTED)
    return columns(rows, layout)


def _row(one: PredictedPoint) -> list[str]:
    point, p = one.point, one.prediction
    return [
        point.collective,
        human_size(point.size_bytes),
        f"{p.time_us:.1f}" if p.time_us > 0 else "-",
        *map(_figure, _rates_GBps(one)),
        _figure(p.bound.busbw_GBps),
        "/".join(w for w in (p.algorithm, p.protocol) if w),
        f"{p.bottleneck.name} ({p.bottleneck.utilisation:.0%})",
    ]


def _rates_GBps(one: PredictedPoint) -> tuple[float, float]:
    """algbw and busbw; infinite for one rank: it sends nothing, so the size over the time is no rate."""
    if one.point.world_size == 1:
        return math.inf, math.inf
    return one.prediction.algbw_GBps, one.prediction.busbw_GBps


def _interval(one: PredictedPoint) -> str:
    interval = one.prediction.interval
    return "-" if interval is None else f"{interval.low_us:.1f}-{interval.high_us:.1f}"


def _figure(GBps: float) -> str:
    """A dash where nothing limits it, or nothing is sent."""
    return f"{GBps:.2f}" if math.isfinite(GBps) else "-"


_ALONE = "one rank: nothing is sent"


def note_lines(found: Sequence[PredictedPoint]) -> list[str]:
    """What the reader must know of the figures above, each once."""
    notes = [note for one in found for note in one.prediction.notes]
    alone = any(one.point.world_size == 1 for one in found)
    if alone and not any(note.startswith(_ALONE) for note in notes):
        notes.insert(0, _ALONE)
    unbounded = [one for one in found if math.isinf(one.prediction.bound.busbw_GBps)]
    if any(one.point.world_size > 1 for one in unbounded):
        notes.append("no bound: the fabric gives no rate for the links between the ranks")
    shares = [i.coverage for one in found if (i := one.prediction.interval) is not None]
    if shares:
        least, most = (f"{share:.0%}" for share in (min(shares), max(shares)))
        held = least if least == most else f"{least} to {most}"
        notes.append(f"expected: held {held} of such points that the constants were not fitted to")
    return [f"note: {note}" for note in dict.fromkeys(notes)]
