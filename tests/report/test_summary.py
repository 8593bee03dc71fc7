"""summary.md: short, complete, and inert wherever it is pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.records.documents import write_findings, write_placement
from clusterlab.records.run_dir import RunDir, create_run, open_run
from clusterlab.report.data import load
from clusterlab.report.files.markdown import block, fenced, table, words
from clusterlab.report.files.summary import summary
from clusterlab.runs.report_page import gathered
from tests.records.fake_runs import fake_rows, make_run, points, renamed

HOSTILE = [
    "<script>alert(1)</script><img src=x onerror=y>",
    "@everyone look at #1 and GH-2",
    "[click](http://evil.example) ![i](https://evil.example/x.png) www.evil.example",
    "| a | b |\n# heading\n- item\n1. one\n> quote",
    "``` fence ```` and `code` ~~~",
    "{color:red}x{color} [~admin] !image.png! {noformat}",
    "*bold* _it_ **b** __b__ ~~s~~ \\",
    "\x1b[31mred\x1b[0m \u202egnp \x85 \u2028 x\ud800",
]


def text_of(run: RunDir) -> str:
    data = load(open_run(run.path))
    return summary(data, gathered(data))


def outside_code(text: str) -> str:
    """``text`` without its code blocks."""
    kept, fence = [], ""
    for line in text.split("\n"):
        mark = re.match(r"`{3,}$", line)
        if fence:
            fence = "" if line == fence else fence
        elif mark:
            fence = line
        else:
            kept.append(line)
    assert not fence, "a code block is not closed"
    return "\n".join(kept)


def active(text: str) -> list[str]:
    """What Markdown, GitHub or Jira would make of ``text`` that is not plain words."""
    patterns = (
        r"(?<!\\)[<>\[\]{}!~`]",
        r"[@#](?=\w)",
        r"://",
        r"(?i)www\.",
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]",
    )
    return [found for pattern in patterns for found in re.findall(pattern, text)]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_strings_are_shown_and_do_nothing(tmp_path: Path, text: str) -> None:
    rows = [
        renamed(r, backend=text, provenance=text, bottleneck=text)
        for r in fake_rows(points(["reduce"]))
    ]
    run = make_run(tmp_path, rows, name=text)
    write_placement(run.path, Placement((RankPlacement(0, text, 0, gpu=text, gpu_name=text),)))
    write_findings(run.path, [Finding(text, Severity.ERROR, (text,), text)])
    said = text_of(run)
    assert active(outside_code(said).replace("**", "")) == []
    assert len(re.findall(r"^#", said, re.MULTILINE)) == 1
    said.encode()


@given(st.text(max_size=80) | st.sampled_from(HOSTILE))
@settings(max_examples=300, deadline=None)
def test_any_text_stays_on_its_line_in_its_cell_and_in_its_block(text: str) -> None:
    for found in (words(text), block(text)):
        assert active(found) == []
        assert len(found.splitlines()) <= 1
    assert not re.match(r"\s*([-+=#>*]|\d+[.)])\s", block(text))
    head, _, row = table(("a", "b"), [(text, "x")])
    assert len(re.findall(r"(?<!\\)\|", row)) == len(re.findall(r"\|", head)) == 3
    first, *inside, last = fenced(text)
    assert first == last
    assert all(first not in line for line in inside)


def test_a_sweep_is_told_in_a_page_that_fits_a_ticket(tmp_path: Path) -> None:
    rows = fake_rows(points())
    rows[3] = renamed(rows[3], wrong=3, wrong_rank=1, wrong_index=5)
    said = text_of(make_run(tmp_path, rows, planned_points=len(rows)))
    assert said.startswith("### ✕ invalid: sweep\n")
    for part in (
        "delivered wrong data at 1 point",
        "--keep-going",
        "reduce_scatter",
        "node-a",
        "Again:",
    ):
        assert part in said
    assert len(said) < 4000


def test_an_empty_and_a_half_written_run_have_one_too(tmp_path: Path) -> None:
    empty = text_of(create_run("early", root=tmp_path))
    assert "nothing was measured" in empty
    run = make_run(tmp_path, fake_rows(points(["reduce"]))[:7], planned_points=16, exit_code=None)
    with run.records_path.open("ab") as file:
        file.write(b'{"schema')
    half = text_of(run)
    for part in ("9 planned points were not measured", "clusterlab resume", "has not ended"):
        assert part in half
