"""Rank 0's end of a bring-up: judge, show, keep; and what was kept, shown again."""

from __future__ import annotations

import sys
from typing import Any

from clusterlab.core.bringup import Bringup
from clusterlab.core.errors import ExitCode
from clusterlab.core.jsontext import json_text
from clusterlab.records.bringups import bringup_from_json
from clusterlab.records.documents import write_findings
from clusterlab.records.files import write_json
from clusterlab.records.reading import read_json
from clusterlab.records.run_dir import RunDir, end_attempt, start_attempt
from clusterlab.report.console.bringup import bringup_json, bringup_lines
from clusterlab.runs.directory import given_or_new_run
from clusterlab.verdict.bringup import growth_findings, judged

BRINGUP = "bringup.json"


def report(bringup: Bringup, *, name: str | None, as_json: bool, repeat: int) -> int:
    """Print the table or JSON, then keep it in a run directory; the exit code.

    The directory is made only now: before, making it would have been measured.
    """
    findings = growth_findings(bringup)
    document = bringup_json(bringup, findings)
    text = json_text(document) if as_json else "\n".join(bringup_lines(bringup, findings))
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    verdict = judged(bringup)
    code = ExitCode.FINDING if findings else ExitCode.OK
    if verdict is not None and verdict[0] == "no_verdict":
        code = ExitCode.NO_VERDICT
    run = start_attempt(
        given_or_new_run(name or "bringup"),
        configuration={
            "command": "bringup",
            "backend": bringup.backend,
            "world_size": len(bringup.ranks),
            "repeat_communicators": repeat,
        },
        planned_points=0,
    )
    write_json(run.path / BRINGUP, document)
    write_findings(run.path, findings)
    end_attempt(run, code)
    return code


def is_bringup(run: RunDir) -> bool:
    """Whether ``run`` is one: it has no rows."""
    return run.info.configuration.get("command") == "bringup"


def report_again(run: RunDir, *, as_json: bool) -> int:
    """Print what ``run`` kept, as it was printed then; the exit code. Raises UsageError for a damaged one."""
    document, bringup = _kept(run)
    findings = growth_findings(bringup)
    text = json_text(document) if as_json else "\n".join(bringup_lines(bringup, findings))
    sys.stdout.write(text + "\n")
    return ExitCode.FINDING if findings else ExitCode.OK


def kept(run: RunDir) -> Bringup:
    """The bring-up that ``run`` kept. Raises UsageError for a damaged one."""
    return _kept(run)[1]


def kept_json(run: RunDir) -> dict[str, Any]:
    """The document that ``run`` kept. Raises UsageError for a damaged one."""
    return _kept(run)[0]


def kept_lines(run: RunDir) -> list[str]:
    """The table that ``run`` kept, as lines. Raises UsageError for a damaged one."""
    bringup = _kept(run)[1]
    return bringup_lines(bringup, growth_findings(bringup))


def _kept(run: RunDir) -> tuple[dict[str, Any], Bringup]:
    path = run.path / BRINGUP
    document = read_json(path)
    return document, bringup_from_json(document, where=str(path))
