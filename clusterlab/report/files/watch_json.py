"""A run that is watched, as plain data for scripts."""

from __future__ import annotations

import math
from typing import Any

from clusterlab.core.overlap import Overlap
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.report.console.watching import Record, Seen, SeenRow, State


def seen_json(seen: Seen) -> dict[str, Any]:
    """Plain data for a script: where it stands, and the records that are new."""
    left, slowest = seen.left, seen.slowest
    return {
        "schema_version": 1,
        "run_id": seen.run_id,
        "path": seen.path,
        "kind": seen.kind,
        "state": seen.state.value,
        "said": seen.said,
        "exit_code": seen.exit_code if seen.state == State.ENDED else None,
        "attempt": len(seen.attempts),
        "done": seen.done,
        "planned": seen.planned,
        "unit": seen.unit,
        "left_s": None if left is None else round(left.seconds, 1),
        "left_at_least": bool(left and left.at_least),
        "left_at_most": bool(left and left.at_most),
        "in_flight": seen.in_flight or None,
        "counts": {verdict.value: n for verdict, n in seen.counts.items() if n},
        "wrong": seen.wrong,
        "slowest_rank": None
        if slowest is None
        else {
            "rank": slowest.rank, "host": slowest.host, "times": slowest.times, "of": slowest.of,
            "ratio": slowest.ratio,
        },
        "notes": list(seen.notes),
        "tables": list(seen.tables),
        "new": [_record_json(record) for record in seen.new],
    }  # fmt: skip


def _record_json(record: Record) -> dict[str, Any]:
    if isinstance(record, SeenRow):
        row = record.row
        return {
            "record": "row", "collective": row.collective, "dtype": row.dtype, "op": row.op,
            "size_bytes": row.size_bytes, "in_place": row.in_place, "timing": row.timing,
            "ranks": None if row.ranks is None else list(row.ranks), "attempt": row.attempt,
            "time_us_loop": _finite(row.time_us_loop), "busbw_GBps": _finite(row.busbw_GBps),
            "predicted_busbw_GBps": _finite(row.predicted_busbw_GBps), "ratio": _finite(row.ratio),
            "verdict": record.verdict.value, "reason": record.reason, "wrong": row.wrong,
        }  # fmt: skip
    names = {StepLine: "step", SoakPass: "pass", Overlap: "overlap"}
    return {"record": names[type(record)], **record.to_json()}


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None
