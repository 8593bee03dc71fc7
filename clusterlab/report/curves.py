"""Rows arranged for reading: a curve per collective, dtype, operator, root and way of calling; out-of-place
and in-place halves of a size side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterlab.core.findings import Verdict
from clusterlab.core.rows import Row
from clusterlab.report.text import plain
from clusterlab.verdict.judge import Judged, judge_row

_GRAVITY = (
    Verdict.INVALID,
    Verdict.SLOW,
    Verdict.FAST_UNEXPECTED,
    Verdict.NO_VERDICT,
    Verdict.PASS,
)


@dataclass(frozen=True, slots=True)
class Halves:
    """One size of a curve: its out-of-place and its in-place row, of which at least one is there, and what
    can be said of each that is there.
    """

    out_of_place: Row | None
    in_place: Row | None
    judgements: tuple[Judged, ...]

    @property
    def first(self) -> Row:
        """The out-of-place row, or the in-place one where it alone was measured."""
        row = self.out_of_place or self.in_place
        assert row is not None
        return row

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows that are there."""
        if self.out_of_place is not None and self.in_place is not None:
            return self.out_of_place, self.in_place
        return (self.first,)

    @property
    def judged(self) -> Judged:
        """The graver of the two verdicts."""
        found = self.judgements
        if len(found) == 1 or found[0].verdict == found[1].verdict:
            return found[0]
        return min(found, key=lambda judged: _GRAVITY.index(judged.verdict))


def _halves(half: Mapping[bool, Row], known: Mapping[int, Judged]) -> Halves:
    said = tuple(
        known.get(id(half[place])) or judge_row(half[place])
        for place in (False, True)
        if place in half
    )
    return Halves(half.get(False), half.get(True), said)


@dataclass(frozen=True, slots=True)
class Curve:
    """All sizes of one collective with one dtype, operator and root, called in one way, ascending."""

    collective: str
    dtype: str
    op: str | None
    root: int | None
    world_size: int
    backend: str
    timing: str
    uneven: str | None
    sizes: tuple[Halves, ...]

    @property
    def title(self) -> str:
        """``all_reduce float32 sum, 4 ranks, gloo``."""
        words = " ".join(w for w in (self.collective, self.variant) if w)
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        return plain(f"{words}, {ranks}, {self.backend}")

    @property
    def variant(self) -> str:
        """What tells it from other curves of its collective: ``float32 sum root 2 graph``."""
        words = [
            self.dtype,
            self.op or "",
            f"root {self.root}" if self.root else "",
            self.timing if self.timing != "eager" else "",
            f"uneven: {self.uneven}" if self.uneven else "",
        ]
        return plain(" ".join(w for w in words if w))

    @property
    def rows(self) -> tuple[Row, ...]:
        """All its rows."""
        return tuple(row for halves in self.sizes for row in halves.rows)


_Key = tuple[str, str, str | None, int | None, int, str, str, str | None]


def curves(rows: Iterable[Row], said: Mapping[int, Judged] | None = None) -> tuple[Curve, ...]:
    """Those of ``rows`` (one per point) that all ranks took part in with nothing beside, as curves in order
    of first measurement. ``said``: what they were judged to be (``judge_rows``), where that is known.
    """
    known = said or {}
    groups: dict[_Key, dict[int, dict[bool, Row]]] = {}
    for row in rows:
        if row.ranks is not None or row.beside is not None:
            continue  # some ranks only: see pairs; with something beside it: see overlap
        key = (
            *(row.collective, row.dtype, row.op, row.root, row.world_size, row.backend),
            *(row.timing, row.uneven),
        )
        groups.setdefault(key, {}).setdefault(row.requested_bytes, {})[row.in_place] = row
    return tuple(
        Curve(
            *key,
            tuple(_halves(half, known) for _, half in sorted(sizes.items())),
        )
        for key, sizes in groups.items()
    )
