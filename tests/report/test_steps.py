"""Training steps as lines: every part in its column, what is not known as a dash."""

from __future__ import annotations

import re
from dataclasses import replace

from clusterlab.core.stepping import CollectiveSummary, Entry, Span, StepLedger, StepLine
from clusterlab.report.console.steps import (
    collective_lines,
    step_head,
    step_text,
    training_lines,
)
from clusterlab.report.page.timeline import timeline
from clusterlab.report.page.training import training_view

STEP = StepLine(0, 1, "2026-11-29T21:54:00Z", 4.25, 10_000, 1, 1000, 2000, 3000, {"dp": 1500}, 500, 800,
                1200, 3 << 20, 7)  # fmt: skip
CALL = CollectiveSummary("all_reduce", "dp", 2, 4096, "float32", "backward", 2, 100.0, 0.041, 0.041,
                         150.0, 50.0)  # fmt: skip


def test_a_steps_parts_stand_under_their_names() -> None:
    head, units = step_head(["dp", "tp"], pipeline=True)
    line = step_text(STEP, ["dp", "tp"], pipeline=True)
    ends = [name.end() for name in re.finditer(r"\S+", head)]
    assert [line[:end].split()[-1] for end in ends[:-1]] == [
        "0", "4.2500", "10.0", "1.00", "2.00", "3.00", "1.50", "0", "0.500", "0.800", "1.20",
    ]  # fmt: skip
    assert line.endswith("3 MiB")
    assert units.count("(ms)") == 9
    assert "–" in step_text(replace(STEP, loss=None), [], pipeline=False)


def test_a_summary_leaves_out_the_step_that_warms_up() -> None:
    steps = [replace(STEP, step_us=90_000), replace(STEP, step=1, loss=4.0), replace(STEP, step=2)]
    first, *_ = training_lines(steps, [])
    assert first.startswith("3 steps, loss 4.2500 to 4.2500, median 10.0 ms: data 10.0 %")
    assert "exposed dp 15.0 %" in first
    assert training_lines([], [CALL]) == []
    predicted = [replace(step, predicted_us=8_000.0) for step in steps]
    assert "predicted 8.00 ms a step: measured 1.25 of it" in training_lines(predicted, [])


def test_a_rate_that_is_a_bound_says_so_and_handshakes_are_left_out() -> None:
    hidden = replace(CALL, exposed_us=10.0, hidden_us=190.0, predicted_us=60.0, at_most=True)
    shake = replace(CALL, op="recv", phase="handshake")
    lines = collective_lines([CALL, hidden, shake])
    assert len(lines) == 4
    assert "≥" not in lines[2]
    assert lines[2].endswith("–")
    assert "≥0.0410" in lines[3]
    assert lines[3].endswith("60.0")


def test_a_size_that_is_a_mean_says_so() -> None:
    (_, _, line) = collective_lines([replace(CALL, least_bytes=8, most_bytes=8184)])
    assert "~4 KiB" in line


def test_a_table_of_calls_names_its_steps() -> None:
    said = training_lines([STEP], [CALL], (), "steps 3 to 5 of attempt 1")
    assert "collectives of rank 0 in steps 3 to 5 of attempt 1:" in said
    view = training_view([STEP], [CALL], (), "steps 3 to 5 of attempt 1", ())
    assert view is not None
    assert view.covers == "steps 3 to 5 of attempt 1"


def test_a_page_shows_the_first_and_last_of_many_steps() -> None:
    few = training_view([STEP] * 100, [], (), "", ())
    many = training_view([replace(STEP, step=i) for i in range(5000)], [], (), "", ())
    assert few is not None
    assert many is not None
    assert len(many.steps) == len(few.steps) == 100
    assert many.steps[-1][0] == "4999"
    assert many.left_out.startswith("4900 ")
    assert not few.left_out
    assert many.chart is not None
    assert len(many.chart) < 30_000


def test_the_parts_of_a_step_and_the_heads_of_its_table_agree() -> None:
    view = training_view([STEP, STEP], [CALL], (), "", ())
    assert view is not None
    assert all(len(line) == len(view.heads) for line in view.steps)
    assert all(len(line) == len(view.kind_heads) for line in view.kinds)
    shares = [float(part.share.removesuffix(" %")) for part in view.parts]
    assert abs(sum(shares) - 100) < 0.5
    assert {part.width for part in view.parts if part.name == "backward"} == {100.0}


def test_boxes_lie_where_the_ledger_says_and_many_are_left_out_aloud() -> None:
    def ledger(rank: int, boxes: int) -> StepLedger:
        spans = tuple(Span(3, "forward", i, 10.0 * i, 10.0 * i + 5) for i in range(boxes))
        entry = Entry(3, "send", "pp", (0, 1), 8, "float32", "forward", 0, 2.0, 4.0)
        return StepLedger(rank, "n0", 1, 3, 100.0 * rank, spans, (entry,))

    drawn = timeline([ledger(0, 4), ledger(1, 4)], "t")
    assert drawn is not None
    assert not drawn.left_out
    boxes = [float(x) for x in re.findall(r'class="forward">.*?<rect x="([\d.]+)"', drawn.svg)]
    assert len(boxes) == 8
    first, second = sorted(boxes)[:4], sorted(boxes)[4:]
    # the second rank began 100 µs later, ten times the distance of two boxes
    assert abs((second[0] - first[0]) / (first[1] - first[0]) - 10) < 0.1
    many = timeline([ledger(rank, 200) for rank in range(40)], "t")
    assert many is not None
    assert "24 further ranks" in many.left_out
    assert "shortest boxes" in many.left_out
    assert len(many.svg) < 500_000
