"""The run's data inside its page: links that carry their files, so that no script is needed to save them."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.overlap import Overlap
from clusterlab.core.rows import SCHEMA_VERSION, Row
from clusterlab.core.soaking import SoakPass
from clusterlab.core.stepping import StepLine
from clusterlab.records.run_info import info_to_json
from clusterlab.records.schema import jsonable
from clusterlab.report.data import ReportData
from clusterlab.verdict.run_verdict_json import run_verdict_to_json

PLAIN_LIMIT_BYTES = 16 * 1024
"""Above this a download is gzipped."""

MOST_CONVERTED = 20_000
"""Rows up to which a page carries CSV and JSON; of more it carries records.jsonl as it stands, once."""

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


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
        "rows": [[_short(value) for value in jsonable(row).values()] for row in data.rows],
    }


def _short(value: Any) -> Any:
    return float(f"{value:.7g}") if isinstance(value, float) else value


def rows_csv(rows: Iterable[Row]) -> str:
    """``rows`` as CSV, one column per field of the schema; empty where not known.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    return _csv(Row.__dataclass_fields__, (jsonable(row).values() for row in rows))


def runs_csv(runs: Iterable[tuple[str, Iterable[Row]]]) -> str:
    """The rows of several runs (name and rows) as one table, as ``rows_csv``; before them ``run_id``."""
    lines = ((run_id, *jsonable(row).values()) for run_id, rows in runs for row in rows)
    return _csv(("run_id", *Row.__dataclass_fields__), lines)


def records_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Records of one kind as CSV, as ``rows_csv``; mappings in them as ``name=value``."""
    return _csv(records[0], (record.values() for record in records))


def _csv(heads: Iterable[str], lines: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(heads)
    for line in lines:
        writer.writerow([_cell(_short(value)) for value in line])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value))
    if isinstance(value, dict):
        value = " ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return value if value == "-Infinity" else f"'{value}"
    return value


def downloads(data: ReportData) -> Iterator[Download]:
    """Every row of ``data``, for the page."""
    # What a file is called is a name on somebody's disk: nothing but what run directories are made of.
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", data.run.info.run_id).strip("-.") or "run"
    if len(data.rows) > MOST_CONVERTED:
        yield _gzipped(f"{name}.jsonl", data.run.records_path.read_bytes(), level=1)
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
    text = json.dumps(page_data(data), separators=(",", ":"))
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
