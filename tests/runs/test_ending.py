"""SIGTERM wherever a rank's main thread is: its end is told once, with one exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusterlab.runs.ending import LATE_S, STOPPED
from tests.conftest import clean_environment

BEFORE = """
import ctypes, signal, sys, time
from pathlib import Path
from clusterlab.core.errors import DeadlineError
from clusterlab.runs.ending import Ending

told = Path(sys.argv[1]).open("a")

def finish(code):
    print("told", code, file=told, flush=True)
    return code

def ready():
    print("ready", flush=True)

with Ending(int(sys.argv[2])) as ending:
    ending.finish = finish if sys.argv[2] == "0" else None
"""

PLACES = {
    "in Python": ("ready()\nwhile True: pass", STOPPED, [STOPPED]),
    "asleep": ("ready()\ntime.sleep(60)", STOPPED, [STOPPED]),
    "in a library that never returns": (
        "lock = ctypes.create_string_buffer(64)\n"
        "wait = ctypes.CDLL(None).pthread_mutex_lock\n"
        "wait(lock)\nready()\nwait(lock)",
        STOPPED, [STOPPED],
    ),
    "finding out which peer it lost": (
        "try:\n    raise RuntimeError\nexcept RuntimeError:\n    ready()\n    time.sleep(1)\n"
        "    ending.tell(4, finish)\n    raise DeadlineError('rank 3 is gone')",
        4, [4],
    ),
    "lost in an exception's handling": (
        "try:\n    raise KeyError\nexcept KeyError:\n    ready()\n    time.sleep(60)",
        STOPPED, [STOPPED],
    ),
    "telling the end": (
        "def slow(code):\n    ready()\n    time.sleep(1)\n    return finish(code)\n"
        "sys.exit(ending.tell(1, slow))",
        1, [1],
    ),
    "with a handler of its own": (
        "signal.signal(signal.SIGTERM, lambda *_: None)\nready()\ntime.sleep(1)\n"
        "sys.exit(ending.tell(7, finish))",
        7, [7],
    ),
    "ending by itself": (
        "try:\n    ready()\n    time.sleep(60)\n"
        "except SystemExit:\n    ending.tell(143, finish)\n    raise",
        STOPPED, [STOPPED],
    ),
}  # fmt: skip


def run(place: str, rank: int, tmp_path: Path, signals: int) -> tuple[int, list[int], str, float]:
    code = BEFORE + "".join(f"    {line}\n" for line in PLACES[place][0].splitlines())
    told = tmp_path / "told"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(told), str(rank)],
        env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.02)
    began = time.monotonic()
    _, err = process.communicate(timeout=2 * LATE_S + 30)
    codes = [int(line.split()[1]) for line in told.read_text().splitlines()]
    return process.returncode, codes, err, time.monotonic() - began


@pytest.mark.parametrize(
    ("place", "signals"),
    [*((place, 1) for place in PLACES), ("in Python", 3), ("telling the end", 3)],
)
def test_the_end_is_told_once_with_the_code_the_process_ends_with(
    place: str, signals: int, tmp_path: Path
) -> None:
    code, told, err, _ = run(place, 0, tmp_path, signals)
    assert (code, told) == PLACES[place][1:], err
    assert "Traceback" not in err
    assert ("rank 3 is gone" in err) == (code == 4)


@pytest.mark.parametrize("place", ["in Python", "in a library that never returns"])
def test_a_rank_that_tells_nothing_waits_until_the_others_have_heard(
    place: str, tmp_path: Path
) -> None:
    code, told, err, took_s = run(place, 1, tmp_path, 1)
    assert (code, told, err) == (STOPPED, [], "")
    assert took_s > 0.4
