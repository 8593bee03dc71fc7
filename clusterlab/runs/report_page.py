"""A run's page: what its rows, ``why``, its fabric and its ledgers say, gathered and written."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.findings import Verdict
from clusterlab.core.stepping import StepLedger
from clusterlab.records.run_dir import RunDir
from clusterlab.report.beside import Beside
from clusterlab.report.data import ReportData, load
from clusterlab.runs.bringup_report import is_bringup, kept, kept_lines
from clusterlab.verdict.headline import About, headline
from clusterlab.verdict.headline_others import of_bringup
from clusterlab.verdict.headline_type import Headline
from clusterlab.verdict.steady import quiet
from clusterlab.verdict.why.types import TableAnswer

MOST_ROWS = 20_000
"""Rows up to which ``why`` is asked for a page: it predicts every point again for each cause."""


def write_page(run: RunDir, path: Path | None = None, *, explain: bool = True) -> Path:
    """Write report.html of ``run`` (or ``path``), atomically; the path.

    ``explain``: ask ``why`` too, which takes seconds. Raises UsageError for a damaged run, StorageError when
    the page cannot be written.
    """
    from clusterlab.report.html import write_report

    data = load(run)
    return write_report(data, path, beside=gathered(data, explain=explain))


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
    noisy = quiet(data.rows)
    about = About(
        name=info.run_id,
        command=_typed(data.run),
        backend=data.rows[0].backend if data.rows else str(info.configuration.get("backend", "")),
        world_size=data.placement.world_size if data.placement else 0,
        noisy="; ".join(noisy.reasons),
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
    from clusterlab.runs.why import WhyOptions, why

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
    from clusterlab.runs.export import ledgers_of

    if data.steps:
        with suppress(ClusterlabError):
            return tuple(ledgers_of(data.run.path))
    return ()
