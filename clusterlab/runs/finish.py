"""The end of a run: what is on disk, the report, one last line for people."""

from __future__ import annotations

import sys
from pathlib import Path

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.pairs import between
from clusterlab.core.rows import Row
from clusterlab.records.documents import write_findings
from clusterlab.records.run_dir import RunDir, end_attempt, open_run
from clusterlab.report.data import load
from clusterlab.runs.nccl_tests_files import write_tests_json


def end_run(
    path: Path, exit_code: int, message: str | None, *, tests_json: Path | None = None
) -> None:
    """Note the attempt's end in run.json, then ``conclude``; write ``tests_json``, where one is wanted, also
    for a run that was interrupted. A full disk is said, and stops none of them.
    """
    run = open_run(path)
    if run.attempt:
        try:
            run = end_attempt(run, exit_code)
        except ClusterlabError as error:
            print(f"clusterlab: {error}", file=sys.stderr)
    conclude(run, message)
    if tests_json is not None:
        _write_tests_json(run, tests_json, message)


def _write_tests_json(run: RunDir, path: Path, message: str | None) -> None:
    try:
        for written in write_tests_json(run, path, message=message):
            print(f"clusterlab: {written}", file=sys.stderr, flush=True)
    except ClusterlabError as error:
        print(f"clusterlab: {error}", file=sys.stderr, flush=True)


def conclude(run: RunDir, message: str | None) -> None:
    """Write findings.json and report.html for what was measured, and say where they are.

    ``message`` is what ended the run early, if anything. A report that cannot be written is said on
    stderr and does not hide the outcome of the run.
    """
    from clusterlab.report.html import write_report

    if message:
        print(f"clusterlab: {message}", file=sys.stderr)
    try:
        write_findings(run.path, wrong_data_findings(run.records().rows))
        tell(run)
        print(f"clusterlab: report {write_report(run)}", file=sys.stderr, flush=True)
    except ClusterlabError as error:
        print(f"clusterlab: no report: {error}", file=sys.stderr, flush=True)


def tell(run: RunDir) -> None:
    """Say on stderr how much was measured and what it means. Raises UsageError for a damaged run."""
    data = load(run)
    planned = run.info.planned_points
    points = f"{len(data.rows)} of {planned} points" if planned is not None else "no point"
    judged = data.comparison.judged
    print(
        f"clusterlab: {points} measured; verdict {judged.verdict}: {judged.reason}",
        file=sys.stderr,
    )
    for note in wrong_data_lines(run.records().rows):
        print(f"clusterlab: {note}", file=sys.stderr)


def wrong_data_lines(rows: tuple[Row, ...]) -> list[str]:
    """One line per row with wrong elements: where the first one is, expected and got."""
    return [
        f"wrong data: {row.collective} {row.dtype} {_variant(row)} {row.size_bytes} B: {row.wrong} wrong "
        f"elements, the first on rank {row.wrong_rank} at index {row.wrong_index}: "
        f"expected {row.wrong_expected!r}, got {row.wrong_got!r}"
        for row in rows
        if row.wrong
    ]


def _variant(row: Row) -> str:
    return row.op or (f"rank {between(row.collective, row.ranks)}" if row.ranks else "")


def wrong_data_findings(rows: tuple[Row, ...]) -> tuple[Finding, ...]:
    """The finding that a run with wrong elements gets."""
    evidence = wrong_data_lines(rows)
    if not evidence:
        return ()
    ranks = sorted({row.wrong_rank for row in rows if row.wrong and row.wrong_rank is not None})
    return (
        Finding(
            code="WRONG_DATA",
            severity=Severity.FATAL,
            evidence=tuple(evidence),
            fix="do not train on these ranks: repeat the sweep on halves of them until the one that "
            "spoils data is alone, then check its GPU's ECC errors, its NIC and its links",
            ranks=tuple(ranks),
        ),
    )
