"""Renders pages in a process of its own, one order after another: neither a large run nor a damaged one holds
up who answers requests, and one that takes for ever can be ended.

An order is a JSON line on stdin, ``{"do": …, "run": …, "out": …}``, its answer one on stdout. The end of
stdin is the end: nothing outlives the server.
"""

from __future__ import annotations

import importlib
import json
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.jsontext import json_text
from clusterlab.records.files import write_atomic
from clusterlab.records.run_dir import open_run
from clusterlab.report.console.watch_lines import (
    head_lines,
    in_flight_line,
    outside_line,
    progress_line,
    slowest_line,
)
from clusterlab.report.console.watching import Seen
from clusterlab.report.served import run_list, served
from clusterlab.report.text import plain
from clusterlab.runs.serving.listing import listed
from clusterlab.runs.watching.run import Watched

_MOST_WATCHED = 8

Order = Mapping[str, Any]
_watched: dict[str, Watched] = {}


def page(order: Order) -> dict[str, Any]:
    """The run's page as `clusterlab report` writes it, with what makes it live."""
    from clusterlab.report.data import load
    from clusterlab.report.html import render
    from clusterlab.runs.report_page import gathered

    run = open_run(order["run"])
    attempts = run.info.attempts
    ended = bool(attempts) and attempts[-1].ended_utc is not None
    held = load(run)
    made = served(
        render(held, gathered(held, explain=ended)),
        title=run.path.name,
        stamp=order["stamp"],
        live=not ended,
        home=order["home"],
        links=("rows.csv", "data.json", "records.jsonl"),
    )
    write_atomic(Path(order["out"]), made.html.encode("utf-8", "replace"))
    return {"policy": made.policy}


def compare(order: Order) -> dict[str, Any]:
    """The page of two runs beside each other."""
    from clusterlab.report.compared.page import compare_page
    from clusterlab.runs.comparing.sides import read_side
    from clusterlab.verdict.against.comparison import against

    first, second = order["run"], order["other"]
    found = against(read_side(first), read_side(second))
    text = compare_page(
        [found], [first, second], shlex.join(["clusterlab", "compare", first, second])
    )
    title = f"{Path(first).name} and {Path(second).name}"
    made = served(text, title=title, stamp="", live=False, home=order["home"], links=())
    write_atomic(Path(order["out"]), made.html.encode("utf-8", "replace"))
    return {"policy": made.policy}


def rows(order: Order) -> dict[str, Any]:
    """The rows as CSV."""
    from clusterlab.report.data import load
    from clusterlab.report.files.csv_text import rows_csv

    text = rows_csv(load(open_run(order["run"])).rows)
    write_atomic(Path(order["out"]), text.encode("utf-8", "replace"))
    return {}


def data(order: Order) -> dict[str, Any]:
    """All that the page shows, as JSON."""
    from clusterlab.report.data import load
    from clusterlab.report.page.embed import page_data

    text = json_text(page_data(load(open_run(order["run"]))))
    write_atomic(Path(order["out"]), text.encode())
    return {}


def runs(order: Order) -> dict[str, Any]:
    """The list of runs, one page of it."""
    names = order["names"]
    found = listed(Path(order["run"]), names)
    made = run_list(found, page=order["page"], pages=order["pages"], total=order["total"])
    write_atomic(Path(order["out"]), made.html.encode("utf-8", "replace"))
    return {"policy": made.policy, "stamp": made.stamp}


def status(order: Order) -> dict[str, Any]:
    """Where the run stands, in words."""
    path = order["run"]
    watched = _watched.pop(path, None) or Watched(Path(path))
    seen = watched.look()
    _watched[path] = watched  # the latest asked for comes last
    while len(_watched) > _MOST_WATCHED:
        del _watched[next(iter(_watched))]
    return {"said": said(seen), "over": seen.over}


def said(seen: Seen) -> str:
    """In a few sentences."""
    lines = [
        *head_lines(seen)[1:],
        progress_line(seen, 0),
        in_flight_line(seen),
        outside_line(seen),
        slowest_line(seen.slowest),
    ]
    return "; ".join(line for line in lines if line)


ORDERS: Mapping[str, Callable[[Order], dict[str, Any]]] = {
    "page": page, "compare": compare, "rows": rows, "data": data, "runs": runs, "status": status,
}  # fmt: skip


def answer(order: Order) -> dict[str, Any]:
    """What came of ``order``; ``error``: what is wrong with the run, for people."""
    try:
        return ORDERS[order["do"]](order)
    except ClusterlabError as error:
        return {"error": plain(str(error))}
    except Exception as error:  # a run is anybody's file: no page of it may end the others'
        for line in traceback.format_exc().splitlines():
            print(plain(line), file=sys.stderr)
        return {"error": f"this run cannot be shown: {type(error).__name__}"}


def main() -> None:
    """Until stdin ends."""
    # What is printed while a page is made goes to stderr: stdout carries answers only.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # Now, while nobody waits: the first page is then made as soon as the next.
    for name in ("clusterlab.runs.report_page", "clusterlab.report.html", "jinja2"):
        importlib.import_module(name)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
