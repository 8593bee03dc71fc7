"""A comparison as plain data."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from clusterlab.verdict.against.changes import Change, log_ratio, unknown, variance
from clusterlab.verdict.against.comparison import Comparison
from clusterlab.verdict.against.noise import Noise, band
from clusterlab.verdict.against.pairing import Pair
from clusterlab.verdict.against.side import KEY

_Z95 = 1.96


def comparison_to_json(found: Comparison) -> dict[str, Any]:
    """Verdict, reasons, what differs, changes by group, and every point with its ratio."""
    return {
        "first": found.first.name,
        "second": found.second.name,
        "verdict": found.outcome.value,
        "reasons": list(found.reasons),
        "notes": list(found.notes),
        "differences": [asdict(one) for one in found.differences],
        "changes": [change_to_json(one) for one in found.changes],
        "noise": {name: asdict(one) for name, one in (found.noise or {}).items()},
        "points_in_common": len(found.pairs),
        "alone": list(found.alone),
        "points": [_pair(p, (found.noise or {})[band(p.first.size_bytes)]) for p in found.pairs],
    }


def change_to_json(change: Change) -> dict[str, Any]:
    """One group."""
    return {**asdict(change), "what": change.what.value}


def ratio_interval(pair: Pair, noise: Noise) -> tuple[float, float, float]:
    """Second over first time of a point, and the 95 % interval that noise between runs leaves."""
    value = log_ratio(pair)
    error = math.sqrt(variance(pair, noise) + noise.between**2)
    return math.exp(value), math.exp(value - _Z95 * error), math.exp(value + _Z95 * error)


def _pair(pair: Pair, noise: Noise) -> dict[str, Any]:
    ratio, low, high = ratio_interval(pair, noise)
    return {
        **{name: getattr(pair.first, name) for name in KEY},
        "first_us": pair.first_us,
        "second_us": pair.second_us,
        "of": "loop" if pair.loops else "p50",
        "ratio": ratio,
        "low": low,
        "high": high,
        "unknown": math.sqrt(unknown(pair)),
    }
