"""What ``report --csv``, ``--json`` and ``--summary`` give: on stdout, or a file for each run in a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from clusterlab.cli.shown import shown
from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text

if TYPE_CHECKING:
    from clusterlab.records.run_dir import RunDir
    from clusterlab.report.data import ReportData
    from clusterlab.report.page.beside import Beside


def check_names(runs: Sequence[RunDir], folder: Path) -> None:
    """Raise UsageError for different runs of one name: in ``folder`` their files would be one."""
    seen: dict[str, Path] = {}
    for run in runs:
        path = run.path.resolve()
        other = seen.setdefault(path.name, path)
        if other != path:
            raise UsageError(
                f"{other} and {path} would both be {path.name} there", where=f"--output {folder}",
                expected="runs of different names", fix="report them one by one, each into its own folder",
            )  # fmt: skip


def give_csv(found: Sequence[ReportData], folder: Path | None) -> ExitCode:
    """Rows, or what a run has instead, as CSV. NO_VERDICT, and a line on stderr, where there are none."""
    from clusterlab.report.files.csv_text import runs_csv

    texts = [runs_csv(found)] if folder is None else [runs_csv([data]) for data in found]
    for i, text in enumerate(texts):
        if folder is None:
            sys.stdout.write(text)
        elif text:
            _write(found[i], folder, "csv", text)
    if any(texts):
        return ExitCode.OK
    names = ", ".join(data.run.info.run_id for data in found)
    typer.echo(shown(f"clusterlab: {names}: no rows, steps, passes or overlaps"), err=True)
    return ExitCode.NO_VERDICT


def give_json(found: Sequence[ReportData], besides: Sequence[Beside], folder: Path | None) -> None:
    """One object of one run, of several a list."""
    from clusterlab.runs.report_page import json_of

    every = [json_of(*both) for both in zip(found, besides, strict=True)]
    if folder is None:
        typer.echo(json_text(every[0] if len(every) == 1 else every))
        return
    for data, one in zip(found, every, strict=True):
        _write(data, folder, "json", json_text(one) + "\n")


def give_summary(
    found: Sequence[ReportData], besides: Sequence[Beside], folder: Path | None
) -> None:
    """summary.md of each run."""
    from clusterlab.report.files.summary import summary

    texts = [summary(*both) for both in zip(found, besides, strict=True)]
    if folder is None:
        sys.stdout.write("\n".join(texts))
        return
    for data, text in zip(found, texts, strict=True):
        _write(data, folder, "md", text)


def _write(data: ReportData, folder: Path, suffix: str, text: str) -> None:
    from clusterlab.cli.output import write_output

    write_output(folder / f"{data.run.path.name}.{suffix}", text)
