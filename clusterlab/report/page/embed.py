"""The run's data inside its page: links that carry their files, so that no script is needed to save them."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.jsontext import json_text
from clusterlab.core.overlap import Overlap
from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.reading import read_regular
from clusterlab.records.run_info import info_to_json
from clusterlab.records.schema import jsonable
from clusterlab.report.data import ReportData
from clusterlab.report.files.csv_text import records_csv, rows_csv, short
from clusterlab.verdict.run_verdict_json import run_verdict_to_json

PLAIN_LIMIT_BYTES = 16 * 1024
"""Above this a download is gzipped."""

MOST_CONVERTED = 20_000
"""Rows up to which a page carries CSV and JSON; of more it carries records.jsonl as it stands, once."""


@dataclass(frozen=True, slots=True)
class Download:
    """A link that carries its file."""

    file_name: str
    href: str
    size_bytes: int


def page_data(data: ReportData) -> dict[str, Any]:
    """Everything the page shows, as plain data. Rows are lists in the order of ``columns``, floats to
    seven significant digits (no measurement is better): records.jsonl keeps them as they are.
    """
    columns = list(Row.__dataclass_fields__)
    return {
        "schema_version": SCHEMA_VERSION,
        "run": info_to_json(data.run.info),
        "run_verdict": run_verdict_to_json(data.run_verdict),
        "notes": list(data.notes),
        "findings": [f.to_json() for f in data.findings],
        "overlaps": [one.to_json() for one in data.overlaps],
        "passes": [one.to_json() for one in data.passes],
        "steps": [one.to_json() for one in data.steps],
        "collectives": [asdict(one) for one in data.kinds],
        "experts": [one.to_json() for one in data.loads],
        "columns": columns,
        "rows": [[short(value) for value in jsonable(row).values()] for row in data.rows],
    }


def downloads(data: ReportData) -> Iterator[Download]:
    """Every row of ``data``, for the page."""
    # What a file is called is a name on somebody's disk: nothing but what run directories are made of.
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", data.run.info.run_id).strip("-.") or "run"
    if len(data.rows) > MOST_CONVERTED:
        yield _gzipped(f"{name}.jsonl", read_regular(data.run.records_path), level=1)
        return
    if data.rows:
        yield link(f"{name}.csv", "text/csv", rows_csv(data.rows))
    kinds: dict[str, Sequence[StepLine | SoakPass | Overlap]] = {
        "steps": data.steps,
        "passes": data.passes,
        "overlaps": data.overlaps,
    }
    for kind, records in kinds.items():
        if records:
            text = records_csv([one.to_json() for one in records])
            yield link(f"{name}-{kind}.csv", "text/csv", text)
    text = json_text(page_data(data), separators=(",", ":"))
    yield link(f"{name}.json", "application/json", text)


def link(file_name: str, media_type: str, text: str) -> Download:
    """A data-URI link to ``text``, gzipped when large."""
    content = text.encode("utf-8", "replace")
    if len(content) > PLAIN_LIMIT_BYTES:
        return _gzipped(file_name, content)
    encoded = base64.b64encode(content).decode("ascii")
    return Download(file_name, f"data:{media_type};base64,{encoded}", len(content))


def _gzipped(file_name: str, content: bytes, level: int = 9) -> Download:
    packed = gzip.compress(content, level, mtime=0)
    encoded = base64.b64encode(packed).decode("ascii")
    return Download(f"{file_name}.gz", f"data:application/gzip;base64,{encoded}", len(packed))
