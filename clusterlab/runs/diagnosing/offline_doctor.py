"""``clusterlab doctor FILE_OR_DIR`` and ``--log FILE``: a diagnosis from what was saved."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from clusterlab.binding.diagnose import diagnose
from clusterlab.binding.diagnose.absent import with_absent_ranks
from clusterlab.binding.log_errors import classify_log
from clusterlab.binding.log_reading import MAX_LINE_BYTES
from clusterlab.binding.outcome import exit_code
from clusterlab.binding.records import JoinedRecord, load_record
from clusterlab.binding.table import finding_lines, record_lines
from clusterlab.core.errors import UsageError
from clusterlab.core.findings import Finding
from clusterlab.core.jsontext import json_text
from clusterlab.runs.diagnosing.doctor import report_json

_RECORDS = (".yaml", ".yml", ".json")


def run_offline(saved: Path | None, log: Path | None, *, as_json: bool) -> int:
    """Diagnose a bundle or record, or else an error log; the exit code. Raises UsageError."""
    if saved is not None and log is not None:
        raise UsageError("a record and a log", where="doctor", expected="one of them")
    if saved is not None:
        if not saved.exists():
            raise UsageError("no such file or folder", where=str(saved))
        record = with_absent_ranks(_load(saved))
        findings = diagnose(record)
        missing = list(record.missing_ranks)
        count = len(record.ranks) + len(missing)
        _print(findings, record_lines(record, findings), count, missing, as_json=as_json)
        return int(exit_code(findings, missing))
    if log is None:
        raise UsageError(
            "nothing to read", where="doctor", expected="a file, a folder, or --log FILE"
        )
    long_lines: list[int] = []
    findings = classify_log(log, long_lines)
    if long_lines:
        print(
            f"clusterlab: {log}: lines longer than {MAX_LINE_BYTES} bytes, searched up to there only:"
            f" {len(long_lines)} (the first: line {long_lines[0]})",
            file=sys.stderr,
        )
    ranks = len({rank for f in findings for rank in f.ranks})
    _print(findings, finding_lines(findings), ranks, [], as_json=as_json)
    return int(exit_code(findings, []))


def _load(saved: Path) -> JoinedRecord:
    """The record; of a file that is none, the error says how an error log is read."""
    try:
        return load_record(saved)
    except UsageError as error:
        if error.fix is None and saved.is_file() and saved.suffix not in _RECORDS:
            error.fix = f"an error log is read with --log {saved}"
        raise


def _print(
    findings: Sequence[Finding], lines: list[str], ranks: int, missing: list[int], *, as_json: bool
) -> None:
    if as_json:
        lines = [json_text(report_json(ranks, missing, findings))]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
