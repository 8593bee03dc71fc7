"""The table of ``clusterlab predict``: its columns stay apart, and it has no rate where nothing is sent."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from clusterlab.cli.main import main

Capture = pytest.CaptureFixture[str]

FIGURE = r"(?:\d+\.\d+|-)"
LINE = re.compile(
    rf"(?P<collective>\w+) +(?P<size>\d+ \w+)  +(?P<time>{FIGURE})  +(?:(?P<expected>[\d.]+-[\d.]+|-)  +)?"
    rf"(?P<algbw>{FIGURE})  +(?P<busbw>{FIGURE})  +(?P<bound>{FIGURE})  +"
    rf"(?P<how>\w+(?:/\w+)?)  +(?P<limit>\S.*)"
)


def rows(capsys: Capture, *words: str) -> tuple[list[dict[str, str]], list[str]]:
    """The table's lines by column, and the notes."""
    assert main(["predict", "--collective", "all", *words]) == 0
    first, second, *lines = capsys.readouterr().out.splitlines()
    assert first.split()[:3] == ["collective", "size", "time"] and second.split()[0] == "(us)"
    table = [line for line in lines if not line.startswith("note: ")]
    found = [LINE.fullmatch(line) for line in table]
    assert found and all(found), table
    return [m.groupdict() for m in found if m is not None], [x for x in lines if x not in table]


def data(capsys: Capture, *words: str) -> list[dict[str, Any]]:
    assert main(["predict", "--collective", "all", "--json", *words]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("fabric", "sizes"),
    [
        *(
            (fabric, ("-b", "1", "-e", "16T", "-f", "65536"))
            for fabric in ("h100-1", "hgx-h100", "l40s-8", "dgx-h100-2node")
        ),
        ("dgx-h100-2node", ("-b", "4096T")),
        ("lab-2x4", ("-b", "16G")),
    ],
)
def test_columns_stay_apart_for_any_figure(
    capsys: Capture, fabric: str, sizes: tuple[str, ...]
) -> None:
    words = ("--fabric", fabric, *sizes)
    found, _ = rows(capsys, *words)
    for row, point in zip(found, data(capsys, *words), strict=True):
        assert row["collective"] == point["collective"]
        assert row["time"] == (f"{point['time_us']:.1f}" if point["time_us"] else "-")
        assert row["how"] == "/".join(w for w in (point["algorithm"], point["protocol"]) if w)
        for column, GBps in (
            ("algbw", point["algbw_GBps"]),
            ("busbw", point["busbw_GBps"]),
            ("bound", point["bound"]["busbw_GBps"]),
        ):
            assert row[column] == ("-" if GBps is None else f"{GBps:.2f}")


@pytest.mark.parametrize(
    "words",
    [
        *(("--fabric", "h100-1", "--timing", timing) for timing in ("eager", "graph", "library")),
        ("--fabric", "hgx-h100", "--ranks", "1", "--timing", "eager"),
        ("--fabric", "lab-2x4", "--ranks", "1"),
        ("--fabric", "lab-rails-4x2", "--ranks", "1", "--routing", "hash"),
    ],
)
@pytest.mark.parametrize("size", ["8", "16G"])
def test_one_rank_has_no_rate_and_a_note(
    capsys: Capture, words: tuple[str, ...], size: str
) -> None:
    found, notes = rows(capsys, *words, "-b", size)
    assert {(row["algbw"], row["busbw"]) for row in found} == {("-", "-")}
    assert "0.0" not in {row["time"] for row in found}
    assert sum(note.startswith("note: one rank: nothing is sent") for note in notes) == 1
    assert {(p["algbw_GBps"], p["busbw_GBps"]) for p in data(capsys, *words, "-b", size)} == {
        (None, None)
    }
