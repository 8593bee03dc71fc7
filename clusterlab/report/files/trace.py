"""A training step of all ranks in Chrome's trace event format, which Perfetto and chrome://tracing open.

A process (pid) is a node, its threads (tid) are a rank's streams: computation, and one for each axis that it
communicates along. Slices of one thread must lie inside or after each other, so what overlaps goes to a
further thread of the same stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from clusterlab.core.stepping import Entry, Span, StepLedger

_PER_RANK = 1000
"""Thread ids are rank × this + stream, so that viewers show a rank's streams together."""

Event = dict[str, Any]
_Part = TypeVar("_Part", Span, Entry)


def trace_of(ledgers: Sequence[StepLedger]) -> dict[str, Any]:
    """The trace of ``ledgers``, one a rank, of one step or of several; times in µs from the first begin."""
    origin_us = min((one.began_us for one in ledgers), default=0.0)
    nodes = list(dict.fromkeys(one.host for one in ledgers))
    named: dict[tuple[int, int], Event] = {}
    events: list[Event] = []
    by_rank: dict[int, list[StepLedger]] = {}
    for one in ledgers:
        by_rank.setdefault(one.rank, []).append(one)
    for rank, steps in sorted(by_rank.items()):
        pid = nodes.index(steps[0].host)
        for index, (stream, slices) in enumerate(_streams(steps, origin_us)):
            tid = rank * _PER_RANK + index
            named[pid, tid] = _name("thread_name", pid, tid, f"rank {rank} {stream}")
            events += [{**one, "pid": pid, "tid": tid} for one in slices]
    heads = [_name("process_name", pid, 0, node) for pid, node in enumerate(nodes)]
    heads += [
        {
            "name": "thread_sort_index",
            "ph": "M",
            "pid": pid,
            "tid": tid,
            "args": {"sort_index": tid},
        }
        for pid, tid in named
    ]
    events.sort(key=lambda one: (one["ts"], -one["dur"]))
    return {"traceEvents": [*heads, *named.values(), *events], "displayTimeUnit": "ms"}


def _name(kind: str, pid: int, tid: int, text: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": text}}


def _streams(steps: Sequence[StepLedger], origin_us: float) -> list[tuple[str, list[Event]]]:
    """A rank's threads: a name and its slices."""
    spans: list[Event] = []
    entries: dict[str, list[Event]] = {}
    for one in steps:
        begin = one.began_us - origin_us
        spans += [_span_event(span, begin) for span in one.spans]
        for entry in one.entries:
            entries.setdefault(entry.axis, []).append(_entry_event(entry, begin))
    lanes = [("compute", lane) for lane in _lanes(spans, nested=True)]
    for axis in sorted(entries):
        lanes += [(axis, lane) for lane in _lanes(entries[axis], nested=False)]
    return lanes


def _span_event(span: Span, begin_us: float) -> Event:
    name = f"step {span.step}" if span.name == "step" else span.name
    arguments = {} if span.micro_batch is None else {"micro_batch": span.micro_batch}
    return _slice(name, "compute", begin_us, span, arguments)


def _entry_event(entry: Entry, begin_us: float) -> Event:
    waited = entry.waited_us
    arguments = {
        "size_bytes": entry.size_bytes,
        "dtype": entry.dtype,
        "phase": entry.phase,
        "ranks": list(entry.ranks),
        "micro_batch": entry.micro_batch,
        "waited_us": None if waited is None else round(entry.end_us - waited, 3),
    }
    known = {name: value for name, value in arguments.items() if value is not None}
    return _slice(entry.op, "communication", begin_us, entry, known)


def _slice(name: str, kind: str, begin_us: float, part: _Part, arguments: Event) -> Event:
    start = round(begin_us + part.start_us, 3)
    end = round(begin_us + max(part.start_us, part.end_us), 3)
    dur = round(end - start, 3)
    return {"name": name, "cat": kind, "ph": "X", "ts": start, "dur": dur, "args": arguments}


def _lanes(slices: Iterable[Event], *, nested: bool) -> list[list[Event]]:
    """``slices`` in as few rows as their overlaps allow, first come first; ``nested``: one may lie inside
    another of its row.
    """
    fits: Callable[[list[float], float, float], bool] = _fits_nested if nested else _fits_after
    lanes: list[list[Event]] = []
    open_ends: list[list[float]] = []
    for one in sorted(slices, key=lambda s: (s["ts"], -s["dur"])):
        start, end = one["ts"], one["ts"] + one["dur"]
        index = next((i for i, ends in enumerate(open_ends) if fits(ends, start, end)), len(lanes))
        if index == len(lanes):
            lanes.append([])
            open_ends.append([])
        lanes[index].append(one)
        open_ends[index].append(end)
    return lanes


_GRAIN_US = 5e-4
"""Times are rounded to the nanosecond: ends that differ by less are one."""


def _fits_after(ends: list[float], start: float, _end: float) -> bool:
    while ends and ends[-1] <= start + _GRAIN_US:
        ends.pop()
    return not ends


def _fits_nested(ends: list[float], start: float, end: float) -> bool:
    while ends and ends[-1] <= start + _GRAIN_US:
        ends.pop()
    return not ends or end <= ends[-1] + _GRAIN_US
