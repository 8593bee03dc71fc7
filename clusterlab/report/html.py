"""report.html: one file, no network, no script; opens from an attachment years later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import clusterlab
from clusterlab.records.files import write_atomic
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import ReportData, load
from clusterlab.report.embed import download, page_data, rows_csv, script_json
from clusterlab.report.page import page_view

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(run: RunDir | ReportData, path: Path | None = None) -> Path:
    """Write the page of ``run`` to ``path`` (default: report.html in the run directory), atomically.

    Returns the path. Raises StorageError when it cannot be written, UsageError when the run is damaged.
    """
    data = run if isinstance(run, ReportData) else load(run)
    target = data.run.report_path if path is None else path
    write_atomic(target, render(data).encode("utf-8", "replace"))
    return target


def render(data: ReportData) -> str:
    """The page as text."""
    from markupsafe import Markup

    embedded = script_json(page_data(data))
    name = data.run.info.run_id
    text = (
        _environment()
        .get_template("report.html.j2")
        .render(
            page=page_view(data),
            # Inert by construction: script_json leaves no "<" in it.
            data=Markup(embedded),
            downloads=(
                download(f"{name}.csv", "text/csv", rows_csv(data.rows)),
                download(f"{name}.json", "application/json", embedded),
            ),
            version=clusterlab.__version__,
        )
    )
    return str(text)


def _environment() -> Environment:
    # Imported here: jinja2 takes 60 ms, and only a report needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("clusterlab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
