"""What ``clusterlab why`` does: the tables of a file or a run, and what each answers.

Of published tables everything is read but what people judged of them: ``health``, ``cause_code``, ``notes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ExitCode
from clusterlab.core.findings import Verdict
from clusterlab.core.suggest import unknown
from clusterlab.cost.scoring.asked import Asked
from clusterlab.runs.typed import version_named
from clusterlab.runs.why_run import tables_of_run
from clusterlab.runs.why_table import Table
from clusterlab.runs.why_text import tables_of_file
from clusterlab.topology.opening import open_fabric
from clusterlab.verdict.why.explain import explain_table
from clusterlab.verdict.why.types import TableAnswer


@dataclass(frozen=True, slots=True)
class WhyOptions:
    """What was typed. ``fabric`` takes the place of what the source says; ``table`` is one of several."""

    source: Path
    table: str | None = None
    fabric: str | None = None
    nccl_version: str | None = None


@dataclass(frozen=True, slots=True)
class WhyReport:
    """``answers`` in the source's order; ``notes`` are of the source."""

    answers: tuple[TableAnswer, ...]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """1: something is slow or wrong; 3: something could not be judged; 0: all looked at, and nothing."""
        verdicts = {answer.verdict for answer in self.answers}
        if verdicts & {Verdict.SLOW, Verdict.INVALID}:
            return ExitCode.FINDING
        return ExitCode.NO_VERDICT if Verdict.NO_VERDICT in verdicts else ExitCode.OK

    def to_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        found: dict[str, Any] = {"tables": [answer.to_json() for answer in self.answers]}
        return {**found, "notes": list(self.notes)}


def why(options: WhyOptions, *, progress: Callable[[int, int], None] | None = None) -> WhyReport:
    """Explain every table, or the one asked for. Raises UsageError for what cannot be read or is not there;
    ``progress(done, all)`` is called after each table.
    """
    fabric = None if options.fabric is None else open_fabric(options.fabric)
    version = None if options.nccl_version is None else version_named(options.nccl_version)
    asked = Asked(library_version=version)
    read = tables_of_run if _is_run(options.source) else tables_of_file
    tables, notes = read(options.source, fabric, asked)
    if options.table is not None:
        tables = _the_one(tables, options.table)
    answers = []
    for done, table in enumerate(tables, start=1):
        answers.append(answer(table))
        if progress is not None:
            progress(done, len(tables))
    return WhyReport(tuple(answers), tuple(notes))


def answer(table: Table) -> TableAnswer:
    """What can be said of one table."""
    if table.wrong:
        reason = f"{table.wrong} wrong elements: what is fast or slow does not count"
        found = TableAnswer(table.name, Verdict.INVALID, reason, points=len(table.points))
    elif not table.points:
        found = TableAnswer(table.name, Verdict.NO_VERDICT, table.empty or "no rows")
    else:
        found = explain_table(
            table.points,
            fabric=table.fabric,
            asked=table.asked,
            said=table.said,
            cleared=table.cleared,
            request=table.request,
            expected_us=table.expected_us,
        )
    if table.missing and found.verdict == Verdict.PASS:
        reason = f"{table.missing}; of what was measured: {found.reason}"
        found = replace(found, verdict=Verdict.NO_VERDICT, reason=reason)
    return replace(found, table_id=table.name, remarks=(*found.remarks, *table.remarks))


def _is_run(source: Path) -> bool:
    from clusterlab.records.run_dir import runs_root

    return source.is_dir() or (not source.exists() and (runs_root() / source).is_dir())


def _the_one(tables: Sequence[Table], wanted: str) -> list[Table]:
    found = [table for table in tables if wanted in (table.name, table.within)]
    if not found:
        names: Mapping[str, None] = dict.fromkeys(table.name for table in tables)
        raise unknown("table", wanted, names, where="--table")
    return found
