"""The example of docs/importing.md is what the commands print of the log that it describes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.cli.main import main
from tests.formats.measured.examples import BANNER, CLOSING, HEADER, devices

DOC = Path(__file__).resolve().parents[2] / "docs/importing.md"
FACTOR = 2 * 7 / 8


def run_log() -> str:
    """8 B to 8 GiB by factors of two, in place and not, by the page's rule."""
    rows = []
    for size in (1 << power for power in range(3, 34)):
        time_us = 15 + size / 281e3 * (1 + math.sqrt((4 << 20) / size))
        algbw = size / (time_us * 1e3)
        half = f"{time_us:9.2f} {algbw:7.2f} {algbw * FACTOR:7.2f}      0"
        rows.append(f"{size:12d} {size // 4:12d}    float     sum      -1  {half}  {half}\n")
    command = "$ all_reduce_perf -b 8 -e 8G -f 2 -g 8\n"
    return command + BANNER + devices(1, 8) + HEADER + "".join(rows) + CLOSING


def examples() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page's examples, and the lines below it."""
    blocks = re.findall(r"^```\n(.*?)^```$", DOC.read_text(encoding="utf-8"), re.M | re.S)
    for block in blocks:
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.rstrip().splitlines()
            yield command.removeprefix("clusterlab "), lines


def shape(line: str) -> str:
    """A line without its figures: predictions change with every fit of the constants."""
    return " ".join(re.sub(r"-?[\d.]+", "0", line).split())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text(run_log())
    return tmp_path


@pytest.mark.usefixtures("here")
def test_the_examples_print_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    shown = list(examples())
    assert [command.split()[0] for command, _ in shown] == ["import", "predict"]
    for command, expected in shown:
        assert main(command.split()) == 0
        printed = capsys.readouterr().out.splitlines()
        same = (lambda line: line) if command.startswith("import") else shape
        at = 0
        for line in expected:
            if line == "…":
                at = len(printed) - (len(expected) - expected.index("…") - 1)
                continue
            assert same(printed[at]) == same(line)
            at += 1
        assert at == len(printed)
