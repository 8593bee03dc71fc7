"""The series of the history: the same point over all runs of one kind of machine, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterlab.records.columns import NO_NUMBER, TEXT
from clusterlab.records.index import Index
from clusterlab.runs.history.asking import Found, found_rows, host_list
from clusterlab.runs.history.filters import Filters
from clusterlab.runs.history.rows import KINDS, seconds
from clusterlab.verdict.against.side import Timed
from clusterlab.verdict.trend.judge import RECENT, TOLERANCE, trend_of
from clusterlab.verdict.trend.model import Once, Series, Trend

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Numbers = NDArray[np.float64]

_POINT = (
    *("collective", "dtype", "op", "root", "in_place", "world_size", "ranks", "size_bytes"),
    *("timing", "beside", "uneven", "aggregated", "blocking"),
)
"""verdict/against/side.py's KEY; ``ranks`` in the index's spelling."""
_FIGURES = ("busbw_GBps", "predicted_busbw_GBps", "ratio", "time_us_loop", "time_us_p50", "steady")
COLUMNS = (*_POINT, *_FIGURES, "backend", "group", "hosts", "wrong")
_KIND = ("cluster", "fabric", "gpus", "layout")
_FACTS = ("library_version", "driver_version", "fabric_sha256")


@dataclass(frozen=True, slots=True)
class Line:
    """One series with its figures (NaN: not known), beside ``series`` in the runs' order. ``hosts`` are those
    of its ranks, in the latest run; empty for all ranks.
    """

    series: Series
    group: str | None
    hosts: tuple[str, ...]
    busbw_GBps: Numbers
    predicted_GBps: Numbers
    ratio: Numbers


@dataclass(frozen=True, slots=True)
class Machine:
    """Runs of one kind: cluster, fabric, GPUs, hosts × ranks and backend, as ``said``; ``lines`` are the
    trend's series, ``wrong`` rows with wrong data, which count in none.
    """

    said: Mapping[str, Any]
    runs: tuple[Once, ...]
    lines: tuple[Line, ...]
    trend: Trend
    wrong: int


def machines(
    index: Index, filters: Filters, *, recent: int = RECENT, tolerance: float = TOLERANCE
) -> list[Machine]:
    """The trends of the rows that fit, those with most rows first. Raises DamagedError."""
    import numpy as np

    found = found_rows(index, filters, COLUMNS)
    if not found.table.rows:
        return []
    order, rank = _in_time(index, found)
    kinds, kind_of = _kinds(index, found)
    keys = _keys(found, kind_of)
    # By series, and by time within: one number, so that one sort does.
    runs = len(found.runs)
    place = np.argsort(keys * runs + rank[found.run], kind="stable")
    keys, run = keys[place], rank[found.run][place]
    last = np.append((keys[1:] != keys[:-1]) | (run[1:] != run[:-1]), True)
    place, keys, run = place[last], keys[last], run[last]
    edges = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    of_kind: dict[int, list[tuple[int, int]]] = {}
    for low, high in zip(edges.tolist(), [*edges[1:].tolist(), len(keys)], strict=True):
        of_kind.setdefault(int(kind_of[place[low]]), []).append((low, high))
    result = []
    for kind, parts in of_kind.items():
        used = np.unique(np.concatenate([run[low:high] for low, high in parts]))
        once = tuple(_once(index, found.runs[order[i]]) for i in used.tolist())
        lines, wrong = [], 0
        for low, high in parts:
            rows = place[low:high]
            good = found.table.arrays["wrong"][rows] <= 0
            wrong += int((~good).sum())
            if good.any():
                at = np.searchsorted(used, run[low:high][good])
                lines.append(_line(found, rows[good], at))
        if not lines:
            continue
        said = kinds[kind]
        trend = trend_of(
            once,
            [line.series for line in lines],
            backend=said["backend"],
            one_machine=_one_machine(index, [found.runs[order[i]] for i in used.tolist()]),
            recent=recent,
            tolerance=tolerance,
        )
        result.append(Machine(said, once, tuple(lines), trend, wrong))
    return sorted(result, key=lambda one: -sum(len(line.series.at) for line in one.lines))


def _in_time(index: Index, found: Found) -> tuple[list[int], Places]:
    """The runs in order of time, and for each its place in that order."""
    import numpy as np

    said = [index.runs.entries[name].said for name in found.runs]
    when = [seconds(one["created_utc"]) for one in said]
    order = sorted(range(len(when)), key=lambda i: (when[i], found.runs[i]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return order, rank


def _kinds(index: Index, found: Found) -> tuple[list[dict[str, Any]], Places]:
    """The kinds of machine and backend, and for each row which it is of."""
    import numpy as np

    known: dict[tuple[object, ...], int] = {}
    of_run = []
    for name in found.runs:
        said = index.runs.entries[name].said
        values = tuple(_plain(said.get(key)) for key in _KIND)
        of_run.append(known.setdefault(values, len(known)))
    backends = found.table.texts["backend"]
    codes = found.table.arrays["backend"].astype(np.int64)
    kind = np.array(of_run, dtype=np.int64)[found.run] * len(backends) + codes
    said_of = [
        {**dict(zip(_KIND, values, strict=True)), "backend": backend}
        for values in known
        for backend in backends
    ]
    return said_of, kind


def _plain(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value


def _keys(found: Found, kind: Places) -> Places:
    """One number for each series: the same where kind of machine and point are."""
    key, different = _dense(kind)
    # The same ranks on other hosts are another pair, or another group.
    for name in (*_POINT, "hosts"):
        codes, width = _dense(found.table.arrays[name])
        if width == 1:
            continue
        if different > (1 << 62) // width:
            key, different = _dense(key)
        key, different = key * width + codes, different * width
    return _dense(key)[0]


def _dense(values: NDArray[Any]) -> tuple[Places, int]:
    """Numbers from 0 on that are the same where ``values`` are, and how many."""
    import numpy as np

    low, high = int(values.min()), int(values.max())
    if high - low < len(values) and high - low < 1 << 20:
        there = np.zeros(high - low + 1, dtype=bool)
        shifted = values.astype(np.int64) - low
        there[shifted] = True
        return (np.cumsum(there) - 1)[shifted], int(there.sum())
    known = np.unique(values)
    return np.searchsorted(known, values), len(known)


def _line(found: Found, rows: Places, at: Places) -> Line:
    import numpy as np

    arrays, texts = found.table.arrays, found.table.texts
    values = {name: arrays[name][rows] for name in _FIGURES}
    loop, p50 = values["time_us_loop"], values["time_us_p50"]
    known = (p50 > 0) & np.isfinite(p50)
    loops = not bool(known.all())
    times = np.where(loop > 0, loop, np.nan) if loops else p50.copy()
    times[~np.isfinite(times)] = np.nan
    one = int(rows[0])
    key: dict[str, Any] = {}
    for name in _POINT:
        value = arrays[name][one].item()
        if KINDS[name] == TEXT:
            value = texts[name][value]
        elif value == NO_NUMBER:
            value = None
        key[name] = value
    key["ranks"] = None if key["ranks"] is None else ranks_of(key["ranks"])
    key["in_place"], key["blocking"] = bool(key["in_place"]), bool(key["blocking"])
    point = Timed(**key, loop_us=1.0)
    return Line(
        Series(point, at, times, values["steady"].astype(bool), loops),
        texts["group"][int(arrays["group"][one])],
        tuple(host_list(texts["hosts"][int(arrays["hosts"][rows[-1]])])),
        values["busbw_GBps"],
        values["predicted_busbw_GBps"],
        values["ratio"],
    )


def ranks_of(text: str) -> tuple[int, ...]:
    """``0-3,8`` as ranks, as ``history_rows.spans`` wrote them."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found += range(int(first), int(last) + 1) if dash else [int(first)]
    return tuple(found)


def _once(index: Index, name: str) -> Once:
    said = index.runs.entries[name].said
    facts = {key: str(_plain(said[key])) for key in _FACTS if said.get(key)}
    return Once(name, seconds(said["created_utc"]), tuple(said.get("hosts") or ()), facts)


def _one_machine(index: Index, names: list[str]) -> bool | None:
    known = {index.runs.entries[name].said.get("machine") for name in names}
    return None if None in known else len(known) == 1
