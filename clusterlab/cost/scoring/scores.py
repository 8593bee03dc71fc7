"""How far off predictions are: figures over all rows, by group, and of each table's plateau. Pure.

The error of a row is predicted over measured time, less 1, in percent. A row that cannot be predicted
counts as 100 % too fast (a predicted time of 0), and is counted in ``unpredicted``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.bands import BANDS, percentile, size_band
from clusterlab.cost.scoring.scored import ScoredPoint, by_table

_MISS = -1.0
_BY: dict[str, Callable[[ScoredPoint], Any]] = {
    "system": lambda s: s.point.system,
    "collective": lambda s: s.point.collective,
    "table_id": lambda s: s.point.table,
    "gpu": lambda s: s.point.gpu,
    "n_nodes": lambda s: s.point.n_nodes or 1,
    "n_ranks": lambda s: s.point.n_ranks,
    "nccl_version": lambda s: s.point.nccl_version,
    "dtype": lambda s: s.point.dtype,
    "size_band": lambda s: size_band(s.point.size_bytes),
    "intra_fabric": lambda s: s.point.intra_fabric,
    "inter_fabric": lambda s: s.point.inter_fabric,
    "in_place": lambda s: s.point.in_place,
    "algorithm": lambda s: s.algorithm,
}

ErrorOf = Callable[[ScoredPoint], float | None]


def own_error(one: ScoredPoint) -> float | None:
    """Our prediction's error; a row without one is a miss."""
    return _MISS if one.error is None else one.error


def library_error(one: ScoredPoint) -> float | None:
    """The error of NCCL's own model; None where it has none (all_to_all, send_recv)."""
    return one.library_error


@dataclass(frozen=True, slots=True)
class Figures:
    """``n`` rows, ``unpredicted`` of them without a figure. Percent; None where there is no row to take
    them over. ``p90_pct`` is interpolated; ``bias_pct`` the mean with its sign (above 0: predicted slower
    than measured).
    """

    n: int
    unpredicted: int
    mape_pct: float | None
    median_pct: float | None
    p90_pct: float | None
    bias_pct: float | None


def figures(scored: Iterable[ScoredPoint], error: ErrorOf = own_error) -> Figures:
    """The figures of some rows. ``error`` says whose: ``own_error`` or ``library_error``."""
    rows = list(scored)
    errors = [e for e in map(error, rows) if e is not None]
    missing = len(rows) - len(errors)
    if error is own_error:
        missing = sum(r.error is None for r in rows)
    sizes = sorted(abs(e) for e in errors)
    return Figures(
        n=len(rows),
        unpredicted=missing,
        mape_pct=_pct(fmean(sizes)) if sizes else None,
        median_pct=_pct(median(sizes)) if sizes else None,
        p90_pct=_pct(percentile(sizes, 0.9)) if sizes else None,
        bias_pct=_pct(fmean(errors)) if errors else None,
    )


def grouped(
    scored: Iterable[ScoredPoint], by: Sequence[str], error: ErrorOf = own_error
) -> list[tuple[dict[str, Any], Figures]]:
    """Figures of the rows that share the values of ``by`` (see ``check_by``), the groups sorted."""
    groups: defaultdict[tuple[Any, ...], list[ScoredPoint]] = defaultdict(list)
    for one in scored:
        groups[tuple(_BY[name](one) for name in by)].append(one)
    return [
        (dict(zip(by, key, strict=True)), figures(groups[key], error))
        for key in sorted(groups, key=lambda key: list(map(_sortable, by, key)))
    ]


def check_by(text: str) -> tuple[str, ...]:
    """The columns named in ``--by``, commas between. Raises UsageError for another word, none, one twice."""
    names = tuple(part.strip() for part in text.split(","))
    for at, name in enumerate(names):
        if not name:
            raise UsageError(
                f"no column in {text!r}" if not text.strip(", ") else f"an empty name in {text!r}",
                where="--by",
                expected="columns with commas between, of " + ", ".join(_BY),
            )
        if name not in _BY:
            raise unknown("column", name, _BY, where="--by")
        if name in names[:at]:
            raise UsageError(
                f"column {name!r} twice in {text!r}", where="--by", expected="each name once"
            )
    return names


@dataclass(frozen=True, slots=True)
class TableScore:
    """One table in a line. ``plateau_ratio``: predicted over measured busbw, the mean over the rows of
    its largest two sizes (of which ``plateau_algorithm`` is predicted); a row without a prediction is 0.
    ``beats_bound``: rows measured faster than the bound.
    """

    table_id: str
    system: str
    collective: str
    n_ranks: int
    figures: Figures
    library: Figures
    plateau_ratio: float
    plateau_GBps: float
    plateau_algorithm: str
    beats_bound: int


@dataclass(frozen=True, slots=True)
class Plateaus:
    """Of ``tables``, how many plateaus are predicted within 10 and 20 %; the median of table MAPEs."""

    tables: int
    within_10_pct: float | None
    within_20_pct: float | None
    median_table_mape_pct: float | None


def table_scores(scored: Sequence[ScoredPoint]) -> list[TableScore]:
    """A line for each table, in the file's order."""
    return [_table(name, rows) for name, rows in by_table(scored).items()]


def _table(name: str, rows: Sequence[ScoredPoint]) -> TableScore:
    largest = sorted({r.point.size_bytes for r in rows})[-2:]
    plateau = [r for r in rows if r.point.size_bytes in largest]
    last = rows[-1]
    return TableScore(
        table_id=name,
        system=last.point.system,
        collective=last.point.collective,
        n_ranks=last.point.n_ranks,
        figures=figures(rows),
        library=figures(rows, library_error),
        plateau_ratio=fmean(
            r.point.time_us / r.predicted_us if r.predicted_us else 0.0 for r in plateau
        ),
        plateau_GBps=fmean(r.point.busbw_GBps for r in plateau),
        plateau_algorithm=last.algorithm,
        beats_bound=sum(r.beats_bound for r in rows),
    )


def plateaus(tables: Sequence[TableScore]) -> Plateaus:
    """Shares of tables whose plateau is predicted, in percent."""
    mapes = [t.figures.mape_pct for t in tables if t.figures.mape_pct is not None]
    return Plateaus(
        tables=len(tables),
        within_10_pct=_within(tables, 0.10),
        within_20_pct=_within(tables, 0.20),
        median_table_mape_pct=median(mapes) if mapes else None,
    )


def _within(tables: Sequence[TableScore], share: float) -> float | None:
    if not tables:
        return None
    return _pct(fmean(abs(t.plateau_ratio - 1) <= share for t in tables))


def _pct(share: float) -> float:
    return share * 100


def _sortable(column: str, value: Any) -> tuple[bool, float, str]:
    """Numbers and bands by size, words by alphabet, what is not known first."""
    if column == "size_band":
        return True, float(BANDS.index(value)), ""
    if value is None:
        return False, 0.0, ""
    number = float(value) if isinstance(value, int | float) else 0.0
    return True, number, "" if isinstance(value, int | float) else str(value)
