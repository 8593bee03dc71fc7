"""``why`` on published tables: faults detected, healthy tables accused, stated causes among the first.

    CLUSTERLAB_SHARED=… python tests/benchmarks/bench_why_published.py [--left-out] [--all] [FILE.csv]

Labels (``health``, ``cause_code``) are read here alone, after every table was judged from its other columns.
``--left-out``: each system's own tables do not count in what is ordinary of its class (spread.yaml). A cause
that several tables state counts once, as named where any of them names it.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from clusterlab.core.errors import ClusterlabError
from clusterlab.cost.scoring.asked import Asked
from clusterlab.runs.explaining.table import Table
from clusterlab.runs.explaining.text import tables_of_file
from clusterlab.runs.explaining.why import answer
from clusterlab.verdict.why import explain, ordinary
from clusterlab.verdict.why.ordinary import Ordinary, Seen
from clusterlab.verdict.why.types import TableAnswer
from tests.benchmarks.fit_why import LIMIT, off

FILE = Path("measured") / "published_nccl_tests.csv"


@dataclass(frozen=True, slots=True)
class Judged:
    """One table's answer beside what its file says of it."""

    table: str
    system: str
    health: str
    causes: tuple[str, ...]
    answer: TableAnswer

    def named(self, first: int) -> bool:
        """Whether a stated cause is among the ``first``."""
        return bool({h.code for h in self.answer.hypotheses[:first]} & set(self.causes))


def shared_file() -> Path | None:
    """Where the published tables lie, if anywhere."""
    named = os.environ.get("CLUSTERLAB_SHARED")
    above = Path(__file__).resolve().parents[2].parents
    places = [Path(named)] if named else [parent / "shared" for parent in above]
    return next((place / FILE for place in places if (place / FILE).is_file()), None)


def judged(path: Path, *, left_out: bool = False) -> list[Judged]:
    """Every table, judged first and labelled then."""
    tables, _ = tables_of_file(path, None, Asked())
    answers = [_without_own(t, tables) if left_out else answer(t) for t in tables]
    with path.open(encoding="utf-8", newline="") as stream:
        labels = {row["table_id"]: row for row in csv.DictReader(stream)}
    found = []
    for table, said in zip(tables, answers, strict=True):
        label = labels[table.within or table.name]
        causes = tuple(filter(None, label["cause_code"].split("|")))
        found.append(Judged(table.name, label["system"], label["health"], causes, said))
    return found


def _without_own(table: Table, tables: Sequence[Table]) -> TableAnswer:
    """The answer where nothing of the table's system had been measured."""
    known = ordinary.ordinary()
    mine = [t for t in tables if t.points and t.points[0].system == table.points[0].system]
    seen = {band: dict(kinds) for band, kinds in known.seen.items()}
    sums: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for other in mine:
        found = off(other.points)
        if found is not None:
            for band, value in found[1].items():
                sums[band, found[0]].append(min(LIMIT[band], max(-LIMIT[band], value)))
    for (band, kind), values in sums.items():
        if kind in seen[band]:
            before = seen[band][kind]
            mean = float(np.mean(values))
            seen[band][kind] = Seen(before.systems - 1, max(0.0, before.squares - mean**2))
    left = Ordinary(known.widths, seen, known.source)
    try:
        return explain.explain_table(table.points, known=left)
    except ClusterlabError:
        return answer(table)


def figures(found: Sequence[Judged]) -> dict[str, tuple[int, int]]:
    """Each figure as (how many, of how many)."""
    faulty = [j for j in found if j.health == "unhealthy"]
    healthy = [j for j in found if j.health == "healthy"]
    stated = [j for j in faulty if j.causes]
    distinct: defaultdict[tuple[str, ...], list[Judged]] = defaultdict(list)
    for one in stated:
        distinct[one.causes].append(one)
    return {
        "unhealthy tables detected": (sum(j.answer.detected for j in faulty), len(faulty)),
        "healthy tables accused": (sum(j.answer.detected for j in healthy), len(healthy)),
        "tables, stated cause first": (sum(j.named(1) for j in stated), len(stated)),
        "tables, stated cause among three": (sum(j.named(3) for j in stated), len(stated)),
        "distinct causes, first": _distinct(distinct, 1),
        "distinct causes, among three": _distinct(distinct, 3),
    }


def _distinct(causes: Mapping[tuple[str, ...], Sequence[Judged]], first: int) -> tuple[int, int]:
    return sum(any(j.named(first) for j in own) for own in causes.values()), len(causes)


def line(one: Judged) -> str:
    """One table."""
    top = ", ".join(f"{h.code} {h.score:.2f}" for h in one.answer.hypotheses[:3])
    stated = "|".join(one.causes) or "no cause stated"
    return f"  {one.table:30s} {one.health:9s} {one.answer.verdict:15s} {stated}: {top or '-'}"


def main() -> int:
    """Print the figures; 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--all", action="store_true", help="a line for each table")
    given = parser.parse_args()
    path = given.file or shared_file()
    if path is None:
        print("skipped: no folder of shared data here (set CLUSTERLAB_SHARED)")
        return 0
    found = judged(path, left_out=given.left_out)
    for one in found:
        if (
            given.all
            or one.health == "unhealthy"
            or (one.answer.detected and one.health == "healthy")
        ):
            print(line(one))
    for name, (count, of) in figures(found).items():
        print(f"{name}: {count}/{of} ({count / max(1, of):.1%})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
