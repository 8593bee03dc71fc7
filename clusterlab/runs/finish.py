"""The end of a run: what is on disk, the report, one last line for people."""

from __future__ import annotations

import sys
from pathlib import Path

from clusterlab.bench.labels import point_label
from clusterlab.core.errors import ClusterlabError, ExitCode
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.rows import Row
from clusterlab.records.documents import write_findings
from clusterlab.records.lines import read_lines
from clusterlab.records.run_dir import RunDir, end_attempt, open_run
from clusterlab.records.trouble import KeptTrouble, read_trouble, trouble_folder
from clusterlab.report.console.steps import training_lines
from clusterlab.report.data import load, noise_notes
from clusterlab.runs.connected.nccl_tests_files import write_tests_json
from clusterlab.runs.sweeping.slow_groups import slow_group_findings
from clusterlab.runs.sweeping.slow_links import slow_link_findings
from clusterlab.verdict.soak import soak_findings, soaked, tolerance_of
from clusterlab.verdict.training import training_findings

MOST_WRONG = 10
"""Points with wrong data that are told one by one."""


def end_run(
    path: Path,
    exit_code: int,
    message: str | None,
    *,
    cause: str | None = None,
    tests_json: Path | None = None,
) -> None:
    """Note the attempt's end in run.json, then ``conclude``; write ``tests_json``, where one is wanted, also
    for a run that was interrupted. A full disk is said, and stops none of them.

    ``cause``: what ended the job early, where someone else has said it already.
    """
    run = open_run(path)
    if run.attempt:
        try:
            run = end_attempt(run, exit_code)
        except ClusterlabError as error:
            print(f"clusterlab: {error}", file=sys.stderr)
    conclude(run, message, cause=cause)
    if tests_json is not None:
        _write_tests_json(run, tests_json, message)


def _write_tests_json(run: RunDir, path: Path, message: str | None) -> None:
    try:
        for written in write_tests_json(run, path, message=message):
            print(f"clusterlab: {written}", file=sys.stderr, flush=True)
    except ClusterlabError as error:
        print(f"clusterlab: {error}", file=sys.stderr, flush=True)


def conclude(run: RunDir, message: str | None, *, cause: str | None = None) -> None:
    """Write findings.json and report.html for what was measured, and say where they are.

    ``message`` is what ended the run early, if anything; what the ranks found out of it is said too. A
    report that cannot be written is said on stderr and does not hide the outcome of the run.
    """
    from clusterlab.runs.report_page import write_page

    trouble = trouble_of(run)
    _say_trouble(run, message, trouble)
    try:
        early = _ended_early(run, cause or message) if trouble is None else (trouble.finding,)
        slow = slow_link_findings(run)
        groups = slow_group_findings(run)
        soak = _soak_findings(run)
        wrong = wrong_data_findings(run.records().rows)
        training = training_findings(read_lines(run.path).steps)
        write_findings(run.path, (*early, *wrong, *slow, *groups, *soak, *training))
        tell(run)
        for finding in slow:
            what = finding.code.replace("_", " ").lower()
            print(f"clusterlab: {what}: {finding.evidence[0]}", file=sys.stderr)
        for finding in groups:
            print(f"clusterlab: slow group: {finding.evidence[0]}", file=sys.stderr)
        # Who ends a job early gives rank 0 a few seconds: the causes can wait for `clusterlab report`.
        page = write_page(run, explain=message is None)
        print(f"clusterlab: report {page}", file=sys.stderr, flush=True)
    except ClusterlabError as error:
        print(f"clusterlab: no report: {error}", file=sys.stderr, flush=True)


def _soak_findings(run: RunDir) -> tuple[Finding, ...]:
    passes = read_lines(run.path).passes
    return soak_findings(soaked(passes, tolerance_of(run.info.configuration)))


def trouble_of(run: RunDir) -> KeptTrouble | None:
    """What the ranks of the latest attempt found out before it ended with exit code 4; else None.

    Ranks that a signal stops (Ctrl-C, scancel, a full disk on rank 0) lose each other too: that is no
    finding.
    """
    attempts = run.info.attempts
    if not attempts or attempts[-1].exit_code != ExitCode.DEADLINE:
        return None
    try:
        return read_trouble(trouble_folder(run.path, run.attempt))
    except ClusterlabError as error:
        print(f"clusterlab: {error}", file=sys.stderr)
        return None


def _say_trouble(run: RunDir, message: str | None, trouble: KeptTrouble | None) -> None:
    if trouble is not None and trouble.passed:
        message = trouble.finding.evidence[0]  # the launcher knows only that a rank left with 4
    if message:
        print(f"clusterlab: {message}", file=sys.stderr)
    if trouble is not None:
        for line in trouble.finding.evidence[1:]:
            print(f"  {line}", file=sys.stderr)
        print(f"  fix: {trouble.finding.fix}", file=sys.stderr)
        folder = trouble_folder(run.path, run.attempt)
        print(f"  stacks and flight recorders of the ranks: {folder}", file=sys.stderr)


def _ended_early(run: RunDir, cause: str | None) -> tuple[Finding, ...]:
    """For an attempt that a dead rank or node ended, and whose ranks could say nothing."""
    attempts = run.info.attempts
    if cause is None or not attempts or attempts[-1].exit_code != ExitCode.DEADLINE:
        return ()
    fix = "see the logs of the rank or the node that it names; the rows measured so far are kept"
    return (Finding("ENDED_EARLY", Severity.FATAL, (cause,), fix),)


def tell(run: RunDir) -> None:
    """Say on stderr how much was measured and what it means. Raises UsageError for a damaged run."""
    data = load(run)
    if data.steps or run.info.configuration.get("measures") == "training":
        lines = training_lines(data.steps, data.kinds, data.loads, data.kinds_of) or [
            "clusterlab: no step was finished"
        ]
        print("\n".join(lines), file=sys.stderr)
        for finding in data.findings:
            print(f"clusterlab: {finding.evidence[0]}", file=sys.stderr)
        return
    judged = data.judged
    print(
        f"clusterlab: {data.measured} measured; verdict {data.verdict_word}: {judged.reason}",
        file=sys.stderr,
    )
    wrong = _first_few(wrong_data_lines(run.records().rows))
    for note in (
        *noise_notes(data.rows, data.noise, of_sweep=not data.soaked and not data.planned_overlaps),
        *wrong,
    ):
        print(f"clusterlab: {note}", file=sys.stderr)
    if (
        wrong
        and len(data.rows) < (run.info.planned_points or 0)
        and not run.info.configuration.get("keep_going")
    ):
        print(
            "clusterlab: the sweep ended with the first wrong data; --keep-going measures all of it",
            file=sys.stderr,
        )


def wrong_data_lines(rows: tuple[Row, ...]) -> list[str]:
    """One line per row with wrong elements: where the first one is, expected and got."""
    return [
        f"wrong data: {point_label(row.point)}: {row.wrong} wrong "
        f"elements, the first on rank {row.wrong_rank} at index {row.wrong_index}: "
        f"expected {row.wrong_expected!r}, got {row.wrong_got!r}"
        for row in rows
        if row.wrong
    ]


def _first_few(lines: list[str]) -> list[str]:
    """With --keep-going every row may have one: after MOST_WRONG the rest is counted."""
    left = len(lines) - MOST_WRONG
    if left <= 0:
        return lines
    return [*lines[:MOST_WRONG], f"wrong data: {left} more points; records.jsonl has them all"]


def wrong_data_findings(rows: tuple[Row, ...]) -> tuple[Finding, ...]:
    """The finding that a run with wrong elements gets."""
    evidence = _first_few(wrong_data_lines(rows))
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
