"""report.html: one file, no network, no script; opens from an attachment years later."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import clusterlab
from clusterlab.records.files import write_atomic
from clusterlab.records.run_dir import RunDir
from clusterlab.report.data import ReportData, load
from clusterlab.report.page.beside import NOTHING_BESIDE, Beside
from clusterlab.report.page.embed import MOST_CONVERTED, downloads
from clusterlab.report.page.view import page_view

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(
    run: RunDir | ReportData, path: Path | None = None, *, beside: Beside = NOTHING_BESIDE
) -> Path:
    """Write the page of ``run`` to ``path`` (default: report.html in the run directory), atomically.

    Returns the path. Raises StorageError when it cannot be written, UsageError when the run is damaged.
    """
    data = run if isinstance(run, ReportData) else load(run)
    target = data.run.report_path if path is None else path
    write_atomic(target, render(data, beside).encode("utf-8", "replace"))
    return target


def render(data: ReportData, beside: Beside = NOTHING_BESIDE) -> str:
    """The page as text."""
    many = len(data.rows) > MOST_CONVERTED
    if many:
        # Packing the rows needs a core of its own, but not Python.
        with ThreadPoolExecutor(1) as beside_it:
            packed = beside_it.submit(lambda: tuple(downloads(data)))
            view = page_view(data, beside)
            links = packed.result()
    else:
        view, links = page_view(data, beside), tuple(downloads(data))
    text = (
        environment()
        .get_template("report.html.j2")
        .render(
            page=view,
            downloads=links,
            rows=len(data.rows),
            data_note=_AS_IT_STANDS.format(data.run.info.run_id) if many else "",
            version=clusterlab.__version__,
        )
    )
    return str(text)


_AS_IT_STANDS = (
    "Of so many rows the page carries records.jsonl once, as it stands. "
    "As CSV or Parquet: clusterlab report {} --csv, or --parquet FILE."
)


def environment() -> Environment:
    """Templates of pages, with every value escaped."""
    # Imported here: jinja2 takes 60 ms, and only a report needs it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("clusterlab.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
