"""nccl-tests' -J files and NCCL Inspector's records as measured rows."""

from __future__ import annotations

from collections.abc import Iterable

from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding, Severity, most_severe_first
from clusterlab.core.measured import MeasuredRow
from clusterlab.formats.measured.file import MeasuredFile
from clusterlab.formats.measured.log import MAX_ROWS
from clusterlab.formats.measured.plausible import doubt
from clusterlab.formats.measured.rows import measured_rows
from clusterlab.formats.measured.table import Table
from clusterlab.formats.measured.table_findings import none_measured, rows_unusable
from clusterlab.formats.nccl_inspector import InspectorRecord, records
from clusterlab.formats.nccl_tests_json import NcclTestsFile, parse_nccl_tests_json
from clusterlab.formats.nccl_tests_lines import Version
from clusterlab.formats.nccl_tuning import PROTOCOLS, algorithm_name


def read_nccl_tests_json(text: str, *, file: str) -> MeasuredFile:
    """The rows of a -J file; ``line`` is the result's number. Raises UsageError where there is none."""
    parsed = parse_nccl_tests_json(text, file=file)
    if not parsed.rows:
        raise _empty(file)
    rows, findings = measured_rows(_table(parsed), source=file, number=1, exact=True)
    if parsed.dropped:
        findings.append(
            _broken(
                file,
                f"{len(parsed.dropped)} results have no whole set of figures, the first is result "
                f"{parsed.dropped[0]}",
            )
        )
    if not rows:
        raise none_measured(file, findings) or _empty(file)
    return MeasuredFile(
        file, "nccl_tests_json", tuple(rows), findings=tuple(most_severe_first(findings))
    )


def read_inspector(lines: Iterable[str], *, file: str) -> MeasuredFile:
    """One row for each record: one rank's time of one collective. Raises UsageError where there is none."""
    broken: list[int] = []
    doubts: list[tuple[int, str]] = []
    rows: list[MeasuredRow] = []
    for record in records(lines, broken=broken):
        moves = record.size_bytes > 0 and record.world_size != 1
        why = doubt(record.time_us, record.busbw_GBps, record.algbw_GBps, moves=moves)
        if why is not None:
            doubts.append((record.line, why))
            continue
        rows.append(_row(record, file))
        if len(rows) > MAX_ROWS:
            raise UsageError(
                f"more than {MAX_ROWS} records",
                where=f"{file}:{record.line}",
                expected="a part of the run's records",
            )
    unusable = rows_unusable(file, doubts)
    findings = [unusable] if unusable is not None else []
    if not rows:
        raise none_measured(file, findings) or UsageError(
            "no whole NCCL Inspector record",
            where=f"{file}:{broken[0]}" if broken else file,
            expected="objects with coll_perf or p2p_perf: size, time, and the header's n_ranks",
        )
    if broken:
        findings.append(
            _broken(file, f"{len(broken)} records cannot be read, the first in line {broken[0]}")
        )
    unnamed = sorted({row.collective_from or "" for row in rows if row.collective is None})
    if unnamed:
        evidence = f"{file}: {', '.join(unnamed[:4])}: none of the seven collectives"
        findings.append(
            Finding("collective_unknown", Severity.WARNING, (evidence,), "leave those rows out")
        )
    return MeasuredFile(file, "nccl_inspector", tuple(rows), findings=tuple(findings))


def _empty(file: str) -> UsageError:
    return UsageError(
        "an nccl-tests file without a result: the run ended before its first size",
        where=file,
        expected="at least one entry in results",
    )


def _table(parsed: NcclTestsFile) -> Table:
    algorithm = parsed.environment.get("NCCL_ALGO")
    protocol = (parsed.environment.get("NCCL_PROTO") or "").lower()
    return Table(
        program=parsed.program,
        program_said=True,
        options=[parsed.options] if parsed.options else [],
        ranks=list(parsed.ranks),
        headers=1,
        rows=list(parsed.rows),
        closed=int(parsed.complete),
        wrong=parsed.wrong,
        versions=[Version("nccl-tests", None, "NCCL", parsed.library_version)],
        forced_algorithm=algorithm_name(algorithm) if algorithm else None,
        forced_protocol=protocol if protocol in PROTOCOLS else None,
    )


def _row(record: InspectorRecord, file: str) -> MeasuredRow:
    nodes, ranks = record.n_nodes, record.world_size
    even = nodes and ranks and record.collective != "send" and ranks % nodes == 0
    return MeasuredRow(
        source=file,
        line=record.line,
        table=1,
        tool="nccl-inspector",
        tool_version=record.version,
        n_nodes=nodes,
        gpus_per_node=ranks // nodes if even and ranks and nodes else None,
        world_size=ranks,
        world_size_from="header n_ranks" if record.collective != "send" else "one pair",
        collective=record.collective,
        collective_from=f"record {record.called}",
        size_bytes=record.size_bytes,
        time_us=record.time_us,
        algbw_GBps=record.algbw_GBps,
        busbw_GBps=record.busbw_GBps,
        rank=record.rank,
        library="NCCL",
    )


def _broken(file: str, what: str) -> Finding:
    return Finding(
        "rows_broken", Severity.WARNING, (f"{file}: {what}",), "see whether the file was cut"
    )
