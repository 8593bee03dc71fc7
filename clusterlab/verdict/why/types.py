"""What ``why`` answers of one table: a verdict, and causes ranked by how well each explains the curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusterlab.core.findings import Verdict


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One cause. ``code`` is of taxonomy.yaml, ``score`` its probability among all that were weighed.

    ``evidence`` is a sentence with figures, ``check`` the command that settles it. ``variant`` is what was
    changed to explain the curve best (``NCCL_PROTO=LL``), ``fit`` the typical factor by which the curve is
    still missed (1.05: within 5 %).
    """

    code: str
    score: float
    evidence: str
    check: str
    variant: str = ""
    fit: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the four promised keys first."""
        return {
            "code": self.code,
            "score": round(self.score, 4),
            "evidence": self.evidence,
            "check": self.check,
            "variant": self.variant,
            "fit": None if self.fit is None else round(self.fit, 3),
        }


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """``detected``: the rows are further from the prediction than such predictions are from healthy systems.

    ``reason`` says what the verdict rests on. ``hypotheses`` are best first; empty unless slow. ``slowdown``
    by size band: median of measured over expected time, and the factor up to which that is ordinary.
    ``remarks``: what the reader should know besides (a variable that the run set).
    """

    table_id: str
    verdict: Verdict
    reason: str
    hypotheses: tuple[Hypothesis, ...] = ()
    slowdown: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    points: int = 0
    expected: str = ""

    @property
    def detected(self) -> bool:
        """Whether something is wrong with the table."""
        return self.verdict in (Verdict.SLOW, Verdict.INVALID)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "table_id": self.table_id,
            "verdict": self.verdict.value,
            "hypotheses": [h.to_json() for h in self.hypotheses],
            "reason": self.reason,
            "points": self.points,
            "slowdown": {
                band: {"measured_over_expected": round(ratio, 3), "ordinary_up_to": round(most, 3)}
                for band, (ratio, most) in self.slowdown.items()
            },
            "expected": self.expected,
            "remarks": list(self.remarks),
        }
