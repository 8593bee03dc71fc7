"""A run's records as CSV: one way in which whatever stands in a cell is made inert."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from clusterlab.core.errors import UsageError
from clusterlab.core.overlap import Overlap
from clusterlab.core.rows import Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.schema import jsonable
from clusterlab.report.text import plain

if TYPE_CHECKING:
    from clusterlab.report.data import ReportData

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula, the wide forms included."""


def csv_cell(value: Any) -> Any:
    """``value`` as it may stand in a cell: lists with blanks between, mappings as ``name=value``; text on one
    line without control characters, with an apostrophe in front where a spreadsheet would take it for a
    formula.
    """
    if isinstance(value, (list, tuple)):
        value = " ".join(map(str, value))
    if isinstance(value, dict):
        value = " ".join(f"{name}={one}" for name, one in value.items())
    if not isinstance(value, str) or value == "-Infinity":
        return value
    if value.isascii() and value.isalnum():
        return value  # most are: a collective's name, a dtype's
    line = plain(value)
    return f"'{line}" if value.startswith(FORMULA) or line.startswith(FORMULA) else line


def short(value: Any) -> Any:
    """Floats to seven significant digits: no measurement is better."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def rows_csv(rows: Iterable[Row]) -> str:
    """``rows`` as CSV, one column per field of the schema; empty where not known."""
    return _csv(Row.__dataclass_fields__, (jsonable(row).values() for row in rows))


def records_csv(records: Sequence[dict[str, Any]]) -> str:
    """Records of one kind as CSV, a column per field."""
    heads = dict.fromkeys(name for record in records for name in record)
    return _csv(heads, ([record.get(name) for name in heads] for record in records))


def runs_csv(found: Sequence[ReportData]) -> str:
    """What was measured in runs, as one table; of several with ``run_id`` first, and empty where nothing was.

    That are rows, or where a run has none its steps, passes or overlaps. Raises UsageError for runs of
    different kinds, which no table holds.
    """
    every = [(data, *_kept(data)) for data in found]
    kinds = {kind for _, kind, records in every if records}
    if len(kinds) > 1:
        raise UsageError(
            f"{' and '.join(sorted(kinds))} of different runs", where="--csv",
            expected="runs of one kind: a table has one kind of line", fix="print each by itself",
        )  # fmt: skip
    if not kinds:
        return ""
    several = len(found) > 1
    return records_csv(
        [
            {**({"run_id": data.run.info.run_id} if several else {}), **one}
            for data, _, records in every
            for one in records
        ]
    )


def _kept(data: ReportData) -> tuple[str, list[dict[str, Any]]]:
    if data.rows:
        return "rows", [jsonable(row) for row in data.rows]
    kinds: dict[str, Sequence[StepLine | SoakPass | Overlap]] = {
        "steps": data.steps,
        "passes": data.passes,
        "overlaps": data.overlaps,
    }
    for kind, records in kinds.items():
        if records:
            return kind, [one.to_json() for one in records]
    return "rows", []


def _csv(heads: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(heads)
    for line in lines:
        writer.writerow([csv_cell(short(value)) for value in line])
    return out.getvalue()
