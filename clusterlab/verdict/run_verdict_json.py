"""A run's verdict as plain data."""

from __future__ import annotations

from typing import Any

from clusterlab.verdict.run_verdict import CollectiveSummary, RunVerdict


def run_verdict_to_json(run: RunVerdict) -> dict[str, Any]:
    """Plain data: verdict, counts, and one entry per collective."""
    return {
        "verdict": run.judged.verdict.value,
        "reason": run.judged.reason,
        "why": run.judged.why,
        "judged_by": list(run.judged_by),
        "points": run.points,
        "wrong": run.wrong,
        "unchecked": run.unchecked,
        "counts": {v.value: n for v, n in run.counts.items()},
        "collectives": [_summary_to_json(s) for s in run.summaries],
        "of_some_ranks": [_summary_to_json(s) for s in run.partial],
    }


def _summary_to_json(summary: CollectiveSummary) -> dict[str, Any]:
    worst = summary.worst
    return {
        "collective": summary.collective,
        "verdict": summary.judged.verdict.value,
        "reason": summary.judged.reason,
        "why": summary.judged.why,
        "points": summary.points,
        "predicted": summary.predicted,
        "median_error": summary.median_error,
        "p90_error": summary.p90_error,
        "bias": summary.bias,
        "wrong": summary.wrong,
        "unchecked": summary.unchecked,
        "counts": {v.value: n for v, n in summary.counts.items()},
        "worst": {
            "size_bytes": worst.row.size_bytes,
            "dtype": worst.row.dtype,
            "op": worst.row.op,
            "in_place": worst.row.in_place,
            "error": worst.error,
        }
        if worst
        else None,
    }
