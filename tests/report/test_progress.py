"""Progress: a bar on a terminal, few plain lines elsewhere; table lines stay on stdout, whole."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clusterlab.report.console.progress import describe, open_progress
from tests.records.fake_runs import points

POINTS = list(points(["all_reduce", "broadcast"]))

SCRIPT = textwrap.dedent("""
    import sys
    from clusterlab.report.console.progress import open_progress
    from tests.records.fake_runs import points
    some = list(points(["all_reduce"]))
    shown = open_progress(len(some))
    for i, point in enumerate(some):
        shown.start(point)
        shown.line(f"{i:4d} " + "x" * 150 + " end")
        if not sys.stdout.isatty():
            print("printed by someone else")
        shown.done()
    shown.close()
    shown.close()
""")


def test_a_log_gets_few_lines_and_the_table_its_own_stream() -> None:
    out, err = io.StringIO(), io.StringIO()
    shown = open_progress(len(POINTS), stdout=out, stderr=err)
    for point in POINTS:
        shown.start(point)
        shown.line("row")
        shown.done()
    shown.close()
    assert out.getvalue() == "row\n" * len(POINTS)
    said = err.getvalue().splitlines()
    assert len(said) == 2 + 10
    assert said[0] == "[0/32] all_reduce float32 sum 1 KiB …"
    assert said[-1] == "[32/32] done"


def test_a_point_in_words() -> None:
    assert describe(POINTS[1]) == "all_reduce float32 sum 1 KiB in place"
    assert describe(POINTS[-2]) == "broadcast float32 16 MiB"


@pytest.mark.parametrize("stdout_too", [True, False])
def test_on_a_terminal_the_bar_never_touches_the_lines(stdout_too: bool, tmp_path: Path) -> None:
    """A real pseudo-terminal; stdout is either the same terminal or a file."""
    leader, follower = pty.openpty()
    table = tmp_path / "table.txt"
    with table.open("wb") as file:
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT],
            stdin=follower,
            stdout=follower if stdout_too else file,
            stderr=follower,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        )
        os.close(follower)
        seen = b""
        while True:
            try:
                chunk = os.read(leader, 1 << 16)
            except OSError:  # Linux: the last writer closed the terminal
                break
            if not chunk:
                break
            seen += chunk
        os.close(leader)
    assert child.wait(timeout=30) == 0
    terminal = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r", "\n")
    assert "16/16" in terminal  # the bar was there
    wanted = [f"{i:4d} {'x' * 150} end" for i in range(16)]
    lines = terminal.split("\n") if stdout_too else table.read_text().splitlines()
    assert [line for line in lines if "xxx" in line] == wanted
    if not stdout_too:
        # Nothing else that prints on stdout is led astray either.
        assert lines.count("printed by someone else") == len(wanted)
        assert "xxx" not in terminal
        assert "printed" not in terminal
