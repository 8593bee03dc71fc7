"""A run's page: what its rows, ``why``, its fabric and its ledgers say, gathered and written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.core.findings import Verdict
from clusterlab.core.stepping import StepLedger
from clusterlab.records.files import write_atomic
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import ReportData, load
from clusterlab.report.page.beside import Beside
from clusterlab.runs.probing.bringup_report import is_bringup, kept, kept_json, kept_lines
from clusterlab.verdict.bringup import growth_findings
from clusterlab.verdict.headline import About, headline
from clusterlab.verdict.headline_others import of_bringup
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.why.types import TableAnswer

MOST_ROWS = 20_000
"""Rows up to which ``why`` is asked for a page: it predicts every point again for each cause."""


SUMMARY = "summary.md"


def write_page(run: RunDir, path: Path | None = None, *, explain: bool = True) -> Path:
    """Write report.html of ``run`` (or ``path``) and summary.md beside it, atomically; the page's path.

    ``explain``: ask ``why`` too, which takes seconds. Raises UsageError for a damaged run, StorageError when
    they cannot be written.
    """
    data = load(run)
    page = run.report_path if path is None else path
    summary = run.path / SUMMARY if path is None else path.with_suffix(".md")
    write_both(data, page, summary, explain=explain)
    return page


def write_both(
    data: ReportData,
    page: Path,
    summary: Path,
    *,
    explain: bool = True,
    beside: Beside | None = None,
) -> None:
    """Write ``data``'s page and its summary, as ``write_page``; ``beside``, where it is gathered already."""
    from clusterlab.report.files.summary import summary as text_of
    from clusterlab.report.html import write_report

    if beside is None:
        beside = gathered(data, explain=explain)
    write_report(data, page, beside=beside)
    write_atomic(summary, text_of(data, beside).encode("utf-8", "replace"))


def paths_of(run: RunDir, folder: Path | None) -> tuple[Path, Path]:
    """Where the page and the summary of ``run`` go: into it, or into ``folder`` under its own name."""
    if folder is None:
        return run.report_path, run.path / SUMMARY
    return folder / f"{run.path.name}.html", folder / f"{run.path.name}.md"


def check_folder(folder: Path) -> None:
    """Make ``folder``, where pages will go. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot make this folder: {error.strerror}", where=f"--output {folder}"
        ) from None


def json_of(data: ReportData, beside: Beside) -> dict[str, Any]:
    """What ``--json`` prints of a run."""
    from clusterlab.report.console.terminal import run_data

    if is_bringup(data.run):
        return kept_json(data.run)
    return run_data(data, beside.headline)


def verdict_of(data: ReportData, beside: Beside) -> Verdict:
    """The run's; where its own predictions judge nothing, that of ``why``."""
    head = beside.headline
    return head.verdict if head is not None and head.by_why else data.judged.verdict


def found_fault(data: ReportData) -> bool:
    """Whether a report of it ends with 1 by itself: wrong data, or a bring-up that left something behind."""
    if is_bringup(data.run):
        return bool(growth_findings(kept(data.run)))
    return bool(data.run_verdict.wrong)


def gathered(data: ReportData, *, explain: bool = True) -> Beside:
    """What the page of ``data`` shows besides its rows."""
    from clusterlab.runs.drawn_fabric import drawn_fabric

    answers, notes = _why(data) if explain else ((), ())
    bringup, passages = _bringup(data.run)
    return Beside(
        headline=bringup or _headline(data, answers),
        answers=answers,
        notes=notes,
        drawing=drawn_fabric(
            data.run, data.findings, data.placement, paired=bool(data.pairs or data.groups)
        ),
        ledgers=_ledgers(data),
        passages=passages,
    )


def _headline(data: ReportData, answers: tuple[TableAnswer, ...]) -> Headline:
    info = data.run.info
    about = About(
        name=info.run_id,
        command=_typed(data.run),
        backend=data.rows[0].backend if data.rows else str(info.configuration.get("backend", "")),
        world_size=data.placement.world_size if data.placement else 0,
        noisy="; ".join(data.noise.reasons),
        environment=(info.attempts[-1].context if info.attempts else info.created_by).environment,
    )
    return headline(
        data.judged,
        data.run_verdict,
        about,
        rows=data.rows,
        findings=data.findings,
        answers=answers,
        steps=data.steps,
        overlaps=data.overlaps,
        points=data.soaked,
    )


def _typed(run: RunDir) -> tuple[str, ...]:
    """What was typed to measure ``run``; the program by its name, wherever it lay then."""
    info = run.info
    command = (info.attempts[0].context if info.attempts else info.created_by).command
    if command and Path(command[0]).name == "clusterlab":
        return ("clusterlab", *command[1:])
    return command


def _why(data: ReportData) -> tuple[tuple[TableAnswer, ...], tuple[str, ...]]:
    """What ``clusterlab why`` answers; nothing for runs that it has no tables of."""
    if data.planned_overlaps or data.soaked or data.steps or not data.rows:
        return (), ()
    if all(row.ranks is not None for row in data.rows):
        return (), ()
    name = data.run.info.run_id
    if len(data.rows) > MOST_ROWS:
        said = f"Causes were not weighed: {len(data.rows):,} rows. Ask `clusterlab why {name}`."
        return (), (said,)
    if all(row.backend == "gloo" for row in data.rows):
        return (), ("Causes are known of NCCL and RCCL; these rows are gloo's.",)
    # Imported here: with what it predicts by it takes half a second.
    from clusterlab.runs.explaining.why import WhyOptions, why

    try:
        report = why(WhyOptions(data.run.path))
    except ClusterlabError as error:
        return (), (f"Causes were not weighed: {error}",)
    answers = tuple(a for a in report.answers if a.verdict != Verdict.INVALID)
    return answers, report.notes


def _bringup(run: RunDir) -> tuple[Headline | None, tuple[tuple[str, tuple[str, ...]], ...]]:
    """The headline and the table of a bring-up, which has no rows; nothing of other runs."""
    if not is_bringup(run):
        return None, ()
    try:
        found = of_bringup(kept(run), _typed(run))
        return found, (("Bring-up, phase by phase", tuple(kept_lines(run))),)
    except ClusterlabError as error:
        return None, (("Bring-up", (str(error),)),)


def _ledgers(data: ReportData) -> tuple[StepLedger, ...]:
    """Every rank's ledger of the last step that all have."""
    from clusterlab.runs.connected.trace import ledgers_of

    if data.steps:
        with suppress(ClusterlabError):
            return tuple(ledgers_of(data.run.path))
    return ()
