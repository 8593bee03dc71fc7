"""The trace against the rules of Chrome's trace event format (its "Duration" and "Complete" events)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.stepping import Entry, Span, StepLedger
from clusterlab.report.files.trace import trace_of

at = st.floats(0, 5000, allow_nan=False)


def entry(start: float, length: float, axis: str, op: str) -> Entry:
    return Entry(3, op, axis, (0, 1), 64, "float32", "forward", 0, start, start + length, start)


entries = st.builds(entry, at, at, st.sampled_from(["dp", "tp"]), st.sampled_from(["send", "recv"]))
spans = st.builds(
    lambda name, start, length: Span(3, name, None, start, start + length),
    st.sampled_from(["forward", "backward", "data"]), at, at,
)  # fmt: skip
ledgers = st.builds(
    lambda rank, began, spans, entries: StepLedger(
        rank, f"n{rank // 2}", 1, 3, began, (Span(3, "step", None, 0, 1e4), *spans), tuple(entries)
    ),
    st.integers(0, 3), at, st.lists(spans, max_size=8), st.lists(entries, max_size=12),
)  # fmt: skip


def check(trace: dict[str, Any]) -> None:
    """What a viewer relies on."""
    assert json.loads(json.dumps(trace, allow_nan=False)) == trace
    threads = defaultdict(list)
    named: dict[str, set[tuple[int, int]]] = {"process_name": set(), "thread_name": set()}
    for event in trace["traceEvents"]:
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert event["name"]
        if event["ph"] == "M":
            assert event["args"]
            named.setdefault(event["name"], set()).add((event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert set(threads) == named["thread_name"]
    assert {pid for pid, _ in threads} == {pid for pid, _ in named["process_name"]}
    for slices in threads.values():
        assert slices == sorted(slices, key=lambda s: (s[0], s[0] - s[1]))
        above: list[float] = []
        for start, end in slices:
            while above and above[-1] <= start + 1e-3:
                above.pop()
            assert not above or end <= above[-1] + 1e-3, "slices of a thread nest"
            above.append(end)


@given(st.lists(ledgers, min_size=1, max_size=6, unique_by=lambda one: one.rank))
def test_whatever_a_step_held_its_trace_keeps_the_formats_rules(found: list[StepLedger]) -> None:
    trace = trace_of(found)
    check(trace)
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == sum(len(one.spans) + len(one.entries) for one in found)


def test_a_node_is_a_process_and_a_ranks_streams_are_threads() -> None:
    one = StepLedger(0, "n0", 1, 3, 100.0, (Span(3, "step", None, 0, 9), Span(3, "forward", 1, 1, 5)),
                     (entry(1, 4, "dp", "all_reduce"), entry(2, 5, "dp", "all_reduce")))  # fmt: skip
    other = StepLedger(1, "n1", 1, 3, 103.0, (Span(3, "step", None, 0, 9),), ())
    events = trace_of([one, other])["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {0: "rank 0 compute", 1: "rank 0 dp", 2: "rank 0 dp", 1000: "rank 1 compute"}
    nodes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert nodes == {0: "n0", 1: "n1"}
    steps = {e["pid"]: e["ts"] for e in events if e["name"] == "step 3"}
    assert steps == {0: 0, 1: 3}
    (forward,) = (e for e in events if e["name"] == "forward")
    assert (forward["ts"], forward["dur"], forward["args"]) == (1, 4, {"micro_batch": 1})
