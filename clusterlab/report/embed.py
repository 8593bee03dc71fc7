"""The run's data inside its page: a JSON block no string can break out of, and download links."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.records.run_info import info_to_json
from clusterlab.records.schema import jsonable
from clusterlab.report.data import ReportData
from clusterlab.verdict.run_verdict_json import run_verdict_to_json

PLAIN_LIMIT_BYTES = 128 * 1024
"""Above this a download is gzipped: the page holds the data several times over."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Download:
    """A link that carries its file."""

    file_name: str
    href: str
    size_bytes: int


def page_data(data: ReportData) -> dict[str, Any]:
    """Everything the page shows, as plain data. Rows are lists in the order of ``columns``, floats to
    nine significant digits (no clock is better): records.jsonl keeps them as they are.
    """
    columns = list(Row.__dataclass_fields__)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": info_to_json(data.run.info),
        "run_verdict": run_verdict_to_json(data.run_verdict),
        "notes": list(data.notes),
        "findings": [f.to_json() for f in data.findings],
        "columns": columns,
        "rows": [[_short(value) for value in jsonable(row).values()] for row in data.rows],
    }


def _short(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def script_json(data: Any) -> str:
    """``data`` as JSON that is inert inside ``<script>``: no ``<``, ``>``, ``&``, no line separators."""
    text = json.dumps(
        data, separators=(",", ":")
    )  # ensure_ascii escapes U+2028, U+2029, surrogates
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def rows_csv(rows: Iterable[Row]) -> str:
    """``rows`` as CSV, one column per field of the schema; empty where not known.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(Row.__dataclass_fields__)
    for row in rows:
        writer.writerow([_cell(_short(value)) for value in jsonable(row).values()])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return " ".join(map(str, value))
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return value if value == "-Infinity" else f"'{value}"
    return value


def download(file_name: str, media_type: str, text: str) -> Download:
    """A data-URI link to ``text``, gzipped when large."""
    content = text.encode("utf-8", "replace")
    if len(content) > PLAIN_LIMIT_BYTES:
        content = gzip.compress(content, mtime=0)
        file_name, media_type = f"{file_name}.gz", "application/gzip"
    encoded = base64.b64encode(content).decode("ascii")
    return Download(file_name, f"data:{media_type};base64,{encoded}", len(content))
