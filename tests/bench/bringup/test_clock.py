"""The clock of a process's start, and phases on it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from clusterlab.bench.bringup.clock import Marks, now_s, process_start_s
from clusterlab.core.bringup import PHASES

TICK_S = 0.011  # the kernel notes a start in ticks of 10 ms


@pytest.mark.parametrize("argv0", ["plain", "a (strange) name) 1 2"])
def test_a_process_knows_when_it_was_started(argv0: str) -> None:
    code = (
        "import ctypes, sys\n"
        "ctypes.CDLL(None).prctl(15, sys.argv[1].encode()[:15], 0, 0, 0)\n"  # PR_SET_NAME
        "from clusterlab.bench.bringup.clock import process_start_s\n"
        "print(process_start_s())"
    )
    before = now_s()
    process = subprocess.Popen(
        [sys.executable, "-c", code, argv0], stdout=subprocess.PIPE, text=True
    )
    after = now_s()
    out, _ = process.communicate(timeout=60)
    assert before - TICK_S <= float(out) <= after + TICK_S


def test_phases_add_up_to_the_time_since_the_start_and_pauses_count_nowhere() -> None:
    marks = Marks(now_s() - 1.0)
    marks.end("start")
    time.sleep(0.02)
    marks.pause()
    marks.end("torch", at_s=now_s() + 2.0)
    marks.end("identity", at_s=now_s())  # before the end of the last: a tick's rounding
    phases = marks.phases()
    assert list(phases) == ["start", "identity", "torch"]  # PHASES' order
    assert phases["start"] == pytest.approx(1.0, abs=0.01)
    assert phases["torch"] == pytest.approx(2.0, abs=0.01)
    assert phases["identity"] == 0.0
    assert set(phases) <= set(PHASES)
    assert marks.started_unix_s == pytest.approx(time.time() - 1.02, abs=0.05)


def test_this_process_started_in_the_past() -> None:
    assert 0 < process_start_s() < now_s()
