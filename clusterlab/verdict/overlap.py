"""What a run of overlaps is judged by: its data. Times beside something are predicted by nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterlab.core.findings import Verdict
from clusterlab.core.overlap import Overlap
from clusterlab.verdict.judge import Judged

ONLY_DATA = "times are not judged: nothing predicts them beside something else"


@dataclass(frozen=True, slots=True)
class PlannedOverlaps:
    """How many overlaps a run was to measure, by its configuration."""

    count: int

    def measured(self, overlaps: Sequence[Overlap]) -> str:
        """``2 of 4 overlaps``."""
        return f"{len(overlaps)} of {self.count} overlaps"


def planned_overlaps(configuration: Mapping[str, Any]) -> PlannedOverlaps | None:
    """None for a run that is none of overlaps."""
    if configuration.get("measures") != "overlap":
        return None
    typed = configuration["typed"]
    each = len(typed["collectives"]) * len(typed["sizes_bytes"])
    return PlannedOverlaps(each * len(configuration["beside"]))


def judge_overlaps(overlaps: Sequence[Overlap], planned: PlannedOverlaps) -> Judged:
    """By the data of both sides, checked after calls of both at once."""
    wrong = [o for o in overlaps if o.wrong or o.other_wrong]
    if wrong:
        names = ", ".join(dict.fromkeys(f"{o.collective} + {o.beside}" for o in wrong))
        return Judged(
            Verdict.INVALID,
            f"{names}: {len(wrong)} of {len(overlaps)} overlaps delivered wrong elements",
        )
    if len(overlaps) < planned.count:
        return Judged(
            Verdict.NO_VERDICT, f"{planned.count - len(overlaps)} overlaps were not measured"
        )
    unchecked = sum(o.wrong is None or o.other_wrong is None for o in overlaps)
    if unchecked:
        return Judged(
            Verdict.NO_VERDICT,
            f"data of {unchecked} of {len(overlaps)} overlaps not checked; {ONLY_DATA}",
        )
    return Judged(Verdict.PASS, f"no wrong element in either side's data; {ONLY_DATA}")
