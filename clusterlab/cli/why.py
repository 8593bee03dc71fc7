"""``clusterlab why``: why measured bandwidth is below what was to be expected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterlab.runs.explaining.why import WhyReport
    from clusterlab.verdict.why.types import TableAnswer

EPILOG = """Examples:

  clusterlab why runs/20261130T115326Z-all_reduce-0d369c

  clusterlab why nccl_tests.csv --table two-nodes --json

  mpirun -np 16 all_reduce_perf -b 8 -e 8G -f 2 | tee run.log; clusterlab why run.log --fabric dgx-h100-2node

RUN_OR_FILE is a run directory or its records.jsonl, a CSV file as `predict score` reads it, or what `import`
reads: the text of nccl-tests and rccl-tests, their -J files, NCCL's logs; - is any of these files.
Of a CSV file the columns health, cause_code and notes are not read.

A table is one collective, type and number of ranks. Each has a verdict: pass, slow, fast_unexpected,
no_verdict (the reason says what is missing) or invalid (wrong data). For one that is slow every known cause
is weighed: the sweep is predicted again with that one change, and ranked by how well the whole curve fits.
score is a probability over all causes, UNKNOWN among them; check is what to type to settle it.

Exit codes: 0 all as expected, 1 something is slow or wrong, 2 not readable or no such table, 3 no verdict.
"""
_SHOWN = 3


def why(
    source: Annotated[
        Path, typer.Argument(metavar="RUN_OR_FILE", help="A run directory or a file; - is stdin.")
    ],
    table: Annotated[
        str | None, typer.Option("--table", metavar="ID", help="Only this table of several.")
    ] = None,
    fabric: Annotated[
        str | None,
        typer.Option("--fabric", help="The machines, whatever the file or the run says of them."),
    ] = None,
    nccl_version: Annotated[
        str | None,
        typer.Option("--nccl-version", help="The release of rows that name none (newest known)."),
    ] = None,
    causes: Annotated[
        int, typer.Option("--causes", min=1, max=30, help="How many causes to print of each table.")
    ] = _SHOWN,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> int:
    """Say whether measured times are what such machines give, and if not, the likeliest causes."""
    from clusterlab.cli.shown import shown_lines
    from clusterlab.runs.explaining.why import WhyOptions
    from clusterlab.runs.explaining.why import why as run

    report = run(WhyOptions(source, table, fabric, nccl_version), progress=_progress)
    if as_json:
        typer.echo(json_text(report.to_json()))
    else:
        for line in _lines(report, causes):
            typer.echo(shown_lines([line]))
    return report.exit_code


def _progress(done: int, tables: int) -> None:
    if tables > 1 and (done % 10 == 0 or done == tables):
        print(f"clusterlab: {done} of {tables} tables", file=sys.stderr, flush=True)


def _lines(report: WhyReport, causes: int) -> Iterator[str]:
    for answer in report.answers:
        yield from _answer_lines(answer, causes)
    yield from (f"note: {note}" for note in report.notes)


def _answer_lines(answer: TableAnswer, causes: int) -> Iterator[str]:
    yield f"{answer.table_id or '(unnamed)'}: {answer.verdict.value} ({answer.points} points)"
    yield f"  {answer.reason}"
    if answer.hypotheses and not answer.detected:
        yield "  if it should be faster all the same, the likeliest causes:"
    for number, one in enumerate(answer.hypotheses[:causes], start=1):
        yield f"  {number}. {one.code} {one.score:.0%}: {one.evidence}"
        yield f"     check: {one.check}"
    yield from (f"  note: {remark}" for remark in answer.remarks)


def register(app: typer.Typer) -> None:
    """Add this file's command to ``clusterlab``."""
    app.command("why", epilog=EPILOG)(why)
