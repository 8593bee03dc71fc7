"""Rows of the history one by one: what a query prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from clusterlab.records.columns import NO_NUMBER, TEXT, WHOLE, picked
from clusterlab.records.index import Index
from clusterlab.runs.history.asking import Found, found_rows, host_list
from clusterlab.runs.history.filters import Filters
from clusterlab.runs.history.rows import KINDS

OF_RUN = ("run", "time_utc", "cluster", "fabric")
FIELDS = (*OF_RUN, *(name for name in KINDS if name != "time_s"))
"""What a row of a query says, in order."""
_TRUE_FALSE = ("in_place", "blocking", "steady")


def queried(index: Index, filters: Filters, *, most: int) -> tuple[Found, int]:
    """The rows that fit, the latest first, at most ``most`` (0: all), and how many there are."""
    import numpy as np

    found = found_rows(index, filters, tuple(KINDS))
    order = np.lexsort((found.run, -found.table.arrays["time_s"].astype(np.int64)))
    total = len(order)
    if most:
        order = order[:most]
    return Found(found.runs, found.run[order], picked(found.table, order)), total


def row_dicts(found: Found, index: Index, *, chunk: int = 8192) -> Iterator[dict[str, Any]]:
    """Rows as plain values by ``FIELDS``: None where not known."""
    for at in range(0, found.table.rows, chunk):
        part = {n: a[at : at + chunk].tolist() for n, a in found.table.arrays.items()}
        plain = {name: _plain(found, name, values) for name, values in part.items()}
        for i, run in enumerate(found.run[at : at + chunk].tolist()):
            name = found.runs[run]
            said = index.runs.entries[name].said
            row = {field: plain[field][i] for field in KINDS if field != "time_s"}
            hosts = row["hosts"]
            row["hosts"] = said.get("hosts") if hosts is None else host_list(hosts)
            moment = datetime.fromtimestamp(part["time_s"][i], UTC)
            yield {
                "run": name,
                "time_utc": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
                "cluster": said.get("cluster"),
                "fabric": said.get("fabric"),
                **row,
            }


def _plain(found: Found, name: str, values: list[Any]) -> list[Any]:
    if KINDS[name] == TEXT:
        known = found.table.texts[name]
        return [known[code] for code in values]
    if name in _TRUE_FALSE:
        return [bool(value) for value in values]
    if KINDS[name] == WHOLE:
        return [None if value == NO_NUMBER else value for value in values]
    return [value if math.isfinite(value) else None for value in values]
