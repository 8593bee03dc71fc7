"""A log as measured rows: nccl-tests' tables and NCCL's tuning lines in it, read line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity, most_severe_first
from clusterlab.core.measured import MeasuredRow
from clusterlab.formats.measured.file import MeasuredFile
from clusterlab.formats.measured.rows import measured_rows
from clusterlab.formats.measured.table import Table, TableBuilder
from clusterlab.formats.measured.table_findings import none_measured
from clusterlab.formats.nccl_tests import NcclTestsRow, RowReader
from clusterlab.formats.nccl_tests_lines import Options, Program, TestRank, Version, read_line
from clusterlab.formats.nccl_tuning import PROTOCOLS, TuningReader, algorithm_name

MAX_ROWS = 2_000_000
"""Sixty thousand tables of 31 sizes: more is not a measurement somebody made."""

_MESSAGE = re.compile(r"NCCL INFO (.*)")
_RANKS = re.compile(r"\bn[Rr]anks (\d{1,7})\b(?: nNodes (\d{1,7}) localRanks (\d{1,5}))?")
_FORCED = re.compile(r"NCCL_(ALGO|PROTO) set by environment to (\w{1,20})\b(?![,:;^])")
_LINE = 4000


class _Log:
    """What the lines so far have shown."""

    def __init__(self) -> None:
        self.reader = RowReader()
        self.builder = TableBuilder()
        self.tuning = TuningReader()
        self.nccl = False
        self.tool = False
        self.rows = 0
        self.rejoined = 0

    def feed(self, line: str, number: int) -> None:
        at = line.find("NCCL INFO ")
        if at >= 0:
            self.nccl = True
            self._feed_message(line[at + len("NCCL INFO ") :])
        elif (said := read_line(line)) is not None:
            self._take(self.reader.finish())
            self.builder.say(said)
            self.tool = self.tool or isinstance(said, Options | TestRank | Program)
        layout = self.reader.layout
        self._take(self.reader.feed(line, number))
        if self.reader.layout is not layout:
            self.builder.header()
            self.tool = True
            typed = self.reader.layout is not None and self.reader.layout.typed
            self.builder.current.mscclpp = not typed

    def finish(self) -> list[Table]:
        self._take(self.reader.finish())
        return self.builder.finish()

    def _take(self, rows: list[NcclTestsRow]) -> None:
        for row in rows:
            self.builder.row(row)
            self.rejoined += row.rejoined
        self.rows += len(rows)

    def _feed_message(self, message: str) -> None:
        table = self.builder.current
        if " Bytes " in message or "|" in message:
            choice = self.tuning.feed(message)
            if choice is not None and (choice in table.choices or len(table.choices) < 1000):
                table.choices[choice] = table.choices.get(choice, 0) + 1
        elif "anks " in message:
            if (ranks := _RANKS.search(message)) and len(table.nccl_ranks) < 100:
                n, nodes, local = (int(x) if x else None for x in ranks.groups())
                table.nccl_ranks.add((n or 0, nodes, local))
        elif "CCL version" in message:
            said = read_line(message)
            if isinstance(said, Version) and len(table.versions) < 100:
                table.versions.append(said)
        elif "set by environment" in message and (forced := _FORCED.search(message)):
            _force(table, forced.group(1), forced.group(2))


def read_log(lines: Iterable[str], *, file: str) -> MeasuredFile:
    """Rows, tuning and findings of a log; lines of other programs are passed over.

    Raises UsageError where nothing was measured and NCCL says nothing of its choice, or for more than
    ``MAX_ROWS`` rows.
    """
    log = _Log()
    for number, line in enumerate(lines, 1):
        log.feed(line[:_LINE], number)
        if log.rows > MAX_ROWS:
            raise UsageError(
                f"more than {MAX_ROWS} rows", where=f"{file}:{number}", expected="one log of runs"
            )
    tables = log.finish()
    rows: list[MeasuredRow] = []
    findings: list[Finding] = _line_findings(log, file)
    for number, table in enumerate(tables, 1):
        more, wrong = measured_rows(table, source=file, number=number)
        rows.extend(more)
        findings.extend(wrong)
    if not rows and not log.tuning.entries and not log.tuning.choices:
        raise none_measured(file, findings) or _nothing(log, file)
    return MeasuredFile(
        file,
        "nccl_tests" if rows else "nccl_tuning",
        tuple(rows),
        tuple(log.tuning.entries),
        tuple(log.tuning.choices.items()),
        tuple(most_severe_first(findings)),
    )


def _force(table: Table, variable: str, word: str) -> None:
    """NCCL_ALGO or NCCL_PROTO names a single one: NCCL uses no other where that one exists."""
    if variable == "ALGO":
        table.forced_algorithm = algorithm_name(word)
    elif word.lower() in PROTOCOLS:
        table.forced_protocol = word.lower()


def _line_findings(log: _Log, file: str) -> list[Finding]:
    found = []
    if broken := log.reader.broken:
        found.append(
            Finding(
                "rows_broken",
                Severity.WARNING,
                (
                    f"{file}: {len(broken)} rows begin and have no whole set of figures, the first in "
                    f"line {broken[0]}",
                ),
                "send NCCL's lines elsewhere: NCCL_DEBUG_FILE=nccl.%h.%p.log",
            )
        )
    if log.rejoined:
        found.append(
            Finding(
                "rows_rejoined",
                Severity.INFO,
                (f"{file}: {log.rejoined} rows were put together from lines with others between",),
                "NCCL_DEBUG_FILE=nccl.%h.%p.log keeps the table whole",
            )
        )
    return found


def _nothing(log: _Log, file: str) -> UsageError:
    if log.tool:
        what = "an nccl-tests log without a row: the run ended before its first size"
    elif log.nccl:
        what = "an NCCL log without measurements or tuning lines"
    else:
        what = "nothing that was measured"
    return UsageError(
        what,
        where=file,
        expected="a table of nccl-tests, rccl-tests or mscclpp-test, nccl-tests' -J file, NCCL Inspector "
        "records, or NCCL's lines with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING",
        fix="`clusterlab topo import` reads what such logs say of the fabric" if log.nccl else None,
    )
