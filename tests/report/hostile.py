"""Strings that want to be more than text, and run directories in which every name and note is one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import Placement, RankPlacement
from clusterlab.core.rows import Row
from clusterlab.core.stepping import CollectiveSummary, StepLine
from clusterlab.records.documents import (
    FabricReference,
    write_fabric,
    write_findings,
    write_placement,
)
from clusterlab.records.ledgers import write_collectives
from clusterlab.records.lines import STEPS, LineWriter
from clusterlab.records.run_dir import RunDir
from tests.records.fake_runs import fake_rows, make_run, points

OWNED = "clusterlab_owned"
"""What a script that got to run leaves on ``window``."""
FORGED = "FORGED"
"""What begins a line, a series or a cell that the string made of itself."""

HOSTILE = {
    "script": f"<script>window.{OWNED}=1</script>",
    "image": f'<img src=x onerror="window.{OWNED}=1">',
    "svg": f"</title></text></svg><svg onload=window.{OWNED}=1>",
    "double_quote": f'" autofocus onfocus="window.{OWNED}=1" x="',
    "single_quote": f"' autofocus onfocus='window.{OWNED}=1' x='",
    "style": f"</style></code></pre><style>*{{display:none}}</style><{FORGED.lower()}>",
    "comment": f"--></textarea></script><{FORGED.lower()}><!--",
    "entity": "&lt;b&gt;&#x202e;&amp;<b",
    "address": f"javascript:window.{OWNED}=1//http://example.com/",
    "template": "{{ 7 * 7 }}{% include 'report.css' %}${7*7}#{7*7}",
    "formula_equals": '=HYPERLINK("http://example.com","x")',
    "formula_plus": "+1+cmd|' /C calc'!A0",
    "formula_minus": "-1+cmd|' /C calc'!A0",
    "formula_at": "@SUM(1+1)*cmd|' /C calc'!A0",
    "formula_tab": "\t=1+1",
    "formula_return": "\r=1+1",
    "lines": f"a\n{FORGED} 1\r\n{FORGED} 2\x0b{FORGED} 3\x85{FORGED} 4\u2028{FORGED} 5",
    "clear_screen": "\x1b[2J\x1b[H\x1b[31mred\x1b[8mhidden",
    "title": "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1bP+q\x1b\\",
    "link": "\x1b]8;;http://example.com\x1b\\text\x1b]8;;\x1b\\",
    "c1_controls": "\x9b31m\x9d0;owned\x9c\x84\x8d",
    "backspace": "fine\x08\x08\x08\x08evil\x7f\x0e\x05",
    "reversed": "\u202egnp.exe\u2066\u2069\u200f\u061c\u200b\ufeff",
    "nul": "a\x00b",
    "half_a_pair": "a\ud800b",
    "labels": f'a",job="b"}} 1\n{FORGED.lower()}_metric{{x="y\\',
    "markup": "[bold red]a[/bold red][link=http://example.com]b[/link]",
    "markdown": f"![a](http://example.com/a.png)|b|`c`\n```\n# {FORGED}\n<{FORGED.lower()}>",
    "path": "../../../../etc/passwd",
    "format": "%s%n%(x)s{0}{x.__class__}",
    "long": "A" * 3_000,
    "wide": "Z\u0351\u036b\u0343\u036a" * 100,
}

TOGETHER = {
    "page": ("script", "image", "svg", "double_quote", "single_quote", "style", "comment", "entity",
             "address", "template"),
    "sheet": ("formula_equals", "formula_plus", "formula_minus", "formula_at"),
    "terminal": ("clear_screen", "title", "link", "c1_controls", "backspace", "reversed", "nul"),
    "lines": ("lines", "formula_tab", "formula_return"),
    "half_a_pair": ("half_a_pair",),
    "others": ("labels", "markup", "markdown", "path", "format"),
    "long": ("long", "wide"),
}  # fmt: skip
"""The same by what they act on, for what takes longer to show."""

_TEXTS = (
    "algorithm", "protocol", "bottleneck", "provenance", "library_version", "driver_version",
    "library_algorithm", "library_protocol", "transport", "throttled", "memory", "predicted_doubt",
    "stopped_by",
)  # fmt: skip
"""Texts of a row that nothing is computed from."""


def joined(kind: str) -> str:
    """The strings of ``TOGETHER[kind]``, one after the other."""
    return " ".join(HOSTILE[name] for name in TOGETHER[kind])


def hostile_run(root: Path, text: str, *, slow: float = 1.0) -> RunDir:
    """A run of four ranks on two hosts with sweeps of all ranks, of groups and of pairs, and two training
    steps. ``text`` is, or ends, every string of it that somebody else chose.
    """
    rows = [_bad(row, text) for row in _rows(slow)]
    run = make_run(root, rows, name="run", exit_code=1, planned_points=len(rows))
    ranks = tuple(
        RankPlacement(r, f"{text}{r // 2}", r % 2, gpu=f"{text}{r}", gpu_name=text, nics=(text,))
        for r in range(4)
    )
    write_placement(run.path, Placement(ranks))
    finding = Finding(
        "SLOW_LINK", Severity.ERROR, (text, text), text, (1,), (text,), caused_by=text
    )
    write_findings(run.path, [replace(finding, code=text), finding])
    calls = CollectiveSummary(text, text, 2, 4096, text, text, 2, 100.0, 0.041, 0.041, 150.0, 50.0)
    write_collectives(run.path, [calls])
    step = StepLine(0, 1, "2026-11-29T21:54:00Z", 4.25, 10_000, 1, 1000, 2000, 3000, {text: 1500}, 500,
                    800, 1200, 3 << 20, 7)  # fmt: skip
    with LineWriter(run.path / STEPS) as writer:
        writer.append_all([step, replace(step, step=1)])
    _rename(run.path / "run.json", text)
    if text.isprintable() and text.isascii():  # what YAML can hold
        reference = FabricReference(text, "3f" * 32, {"links": text}, text)
        write_fabric(run.path, reference)
    return run


def sweep_only(run: RunDir) -> RunDir:
    """``run`` without its training: one of them decides what a page is about."""
    for name in (STEPS, "collectives.json"):
        (run.path / name).unlink()
    return run


def _rows(slow: float) -> list[Row]:
    names = ("all_reduce", "all_gather")
    whole = fake_rows(points(names, (1024, 1 << 20)), slow=slow)
    halves = [
        replace(row, ranks=ranks, world_size=2)
        for row in fake_rows(points(("all_reduce",), (1024, 1 << 20), world_size=2))
        for ranks in ((0, 1), (2, 3))
    ]
    pair = fake_rows(points(("send_recv",), (1024,), world_size=2))
    return [*whole, *halves, *(replace(row, ranks=(0, 3)) for row in pair)]


def _bad(row: Row, text: str) -> Row:
    return replace(row, **dict.fromkeys(_TEXTS, text))  # type: ignore[arg-type]


def _rename(path: Path, text: str) -> None:
    info: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    info["name"] = info["run_id"] = text
    info["configuration"]["note"] = {"why": text, text: [text]}
    for context in (info["created_by"], *(a["context"] for a in info["attempts"])):
        context["host"] = text
        context["command"] = ["clusterlab", "bench", text]
        context["versions"] = {"clusterlab": text, "nccl": text}
        context["environment"] = {"NCCL_ALGO": text, f"NCCL_{text}": text, "SLURM_JOB_NAME": text}
    path.write_text(json.dumps(info), encoding="utf-8")


def by_labels(run: RunDir, text: str, *fields: str) -> RunDir:
    """``run`` with ``text`` for the fields of its rows that tell what they are rows of."""
    lines = [json.loads(line) for line in run.records_path.read_text().splitlines()]
    changed = [json.dumps({**line, **dict.fromkeys(fields, text)}) for line in lines]
    run.records_path.write_text("".join(f"{line}\n" for line in changed))
    return run
