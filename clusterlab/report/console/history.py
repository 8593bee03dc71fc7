"""Lists of runs and rows of many runs: cells of tables for a terminal, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clusterlab.core.sizes import human_size
from clusterlab.report.files.csv_text import csv_cell
from clusterlab.report.numbers import NOT_KNOWN, three_digits
from clusterlab.report.text import plain

RUN_LAYOUT = ("<16", "<7", "<6", "<5", ">5", ">6", "<7", ">6", "<4")
_RUN_HEAD = ("made (UTC)", "name", "what", "on", "ranks", "points", "verdict", "ratio", "run")
ROW_LAYOUT = ("<16", "<10", "<5", ">8", "<5", "<5", ">7", ">9", ">6", "<7", "<4")
_ROW_HEAD = (
    *("time (UTC)", "collective", "type", "size", "place", "timing", "busbw", "predicted"),
    *("ratio", "verdict", "run"),
)
_LONGEST = 40


def run_cells(runs: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A table of runs, its head first; ratio is the median of measured over predicted busbw."""
    return [list(_RUN_HEAD), *(_run(run) for run in runs)]


def _run(run: Mapping[str, Any]) -> list[str]:
    hosts = run.get("hosts") or []
    where = [run.get("cluster") or run.get("fabric")]
    where += [f"{hosts[0]}{f' +{len(hosts) - 1}' if len(hosts) > 1 else ''}"] if hosts else []
    on = ": ".join(part for part in where if part) or NOT_KNOWN
    planned, points = run.get("planned"), run.get("points")
    measured = NOT_KNOWN if points is None else str(points)
    if planned is not None and points is not None and points < planned:
        measured = f"{points}/{planned}"
    what = run.get("kind") or NOT_KNOWN
    collectives = run.get("collectives") or []
    if what == "sweep" and len(collectives) == 1:
        what = collectives[0]
    verdict = run.get("verdict") or NOT_KNOWN
    if run["state"] not in {"ended", "exit code 1"}:
        verdict = (
            run["state"]
            if run["state"] in {"damaged", "not started"}
            else f"{verdict}, {run['state']}"
        )
    return [
        plain(str(run["created_utc"]))[:16].replace("T", " "),
        short(run["name"]),
        short(what),
        short(on),
        str(run.get("ranks") or NOT_KNOWN),
        measured,
        plain(verdict),
        _ratio(run.get("median_ratio")),
        short(run["run"], 80),
    ]


def row_cells(rows: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """A table of rows, its head first; busbw in GB/s."""
    return [list(_ROW_HEAD), *(_row(row) for row in rows)]


def _row(row: Mapping[str, Any]) -> list[str]:
    name = row["collective"] + (f" of {row['group']}" if row["group"] else "")
    return [
        row["time_utc"][:16].replace("T", " "),
        short(name),
        short(row["dtype"]),
        human_size(row["size_bytes"] or 0),
        "in" if row["in_place"] else "out",
        short(row["timing"]),
        _figure(row["busbw_GBps"]),
        _figure(row["predicted_busbw_GBps"]),
        _ratio(row["ratio"]),
        short(row["verdict"]),
        short(row["run"], 80),
    ]


def count(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def short(text: object, longest: int = _LONGEST) -> str:
    """On one line, nothing hidden in it, its end left out where it is long."""
    line = plain(str(text))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def _figure(value: float | None) -> str:
    return NOT_KNOWN if value is None else three_digits(value)


def _ratio(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.2f}"


def csv_lines(rows: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> Iterator[str]:
    """The rows as CSV, its head first; lists with blanks between; empty where not known.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(fields)
    for row in rows:
        writer.writerow([csv_cell(row[field]) for field in fields])
        if out.tell() > 1 << 16:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()
