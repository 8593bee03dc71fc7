"""What ``clusterlab why`` does: the tables of a file or a run, and what each answers.

Of published tables everything is read but what people judged of them: ``health``, ``cause_code``, ``notes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.suggest import unknown
from clusterlab.cost.nccl.constants import parse_version
from clusterlab.cost.nccl.loading import known_versions
from clusterlab.cost.scoring.asked import Asked
from clusterlab.runs.explaining.run import tables_of_run
from clusterlab.runs.explaining.table import Table
from clusterlab.runs.explaining.text import tables_of_file
from clusterlab.runs.typed import version_named
from clusterlab.topology.opening import open_fabric
from clusterlab.verdict.why.explain import explain_table
from clusterlab.verdict.why.types import TableAnswer

RECORDS = "records.jsonl"


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
    version = _known_release(options.nccl_version)
    asked = Asked(library_version=version)
    source = _of_its_run(options.source)
    read = tables_of_run if _is_run(source) else tables_of_file
    tables, notes = read(source, fabric, asked)
    if options.table is not None:
        tables = _the_one(tables, options.table)
    answers = []
    for done, table in enumerate(tables, start=1):
        answers.append(answer(table))
        if progress is not None:
            progress(done, len(tables))
    return WhyReport(tuple(answers), tuple(notes))


def _known_release(text: str | None) -> str | None:
    """A release as typed. Raises UsageError for one that is newer than all known: its choices are not."""
    version = version_named(text)
    numbers = None if version is None else parse_version(version)
    newest = max(known_versions("nccl"), key=lambda v: parse_version(v) or (0, 0, 0))
    known = parse_version(newest) or (0, 0, 0)
    if numbers is not None and numbers[:2] > known[:2]:
        raise UsageError(
            f"{version} is newer than the newest known, {newest}",
            where="--nccl-version",
            expected=f"a release up to {newest}",
            fix="without the option the newest known is taken",
        )
    return version


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


def _of_its_run(source: Path) -> Path:
    """The run of a records.jsonl. Raises UsageError for one without: nothing says where its ranks were."""
    if source.name != RECORDS or not source.is_file():
        return source
    if not (source.parent / "run.json").is_file():
        raise UsageError(
            "rows without their run",
            where=str(source),
            expected="a run directory, which says where its ranks were (run.json, placement.json)",
        )
    return source.parent


def _is_run(source: Path) -> bool:
    from clusterlab.records.run_dir import runs_root

    return source.is_dir() or (not source.exists() and (runs_root() / source).is_dir())


def _the_one(tables: Sequence[Table], wanted: str) -> list[Table]:
    found = [table for table in tables if wanted in (table.name, table.within)]
    if not found:
        names: Mapping[str, None] = dict.fromkeys(table.name for table in tables)
        raise unknown("table", wanted, names, where="--table")
    return found
