"""Who measures in a run directory: the living are left alone, the dead keep nobody out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterlab.core.errors import UsageError
from clusterlab.records import lease
from clusterlab.records.lease import ALIVE, beating, claim, refuse_alive, release
from clusterlab.records.run_dir import create_run, end_attempt, open_run, start_attempt
from clusterlab.runs.directory import given_or_new_run

_HOLD = """
import sys, time
from pathlib import Path
from clusterlab.records.lease import claim
claim(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that measures in ``tmp_path``."""
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def elsewhere(folder: Path) -> None:
    """As if another host had claimed ``folder``."""
    held = json.loads((folder / ALIVE).read_text())
    held |= {"host": "far", "kernel": "another boot", "pid": os.getpid()}
    (folder / ALIVE).write_text(json.dumps(held))


def test_who_is_about_to_leave_is_waited_for(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    """As ranks whose launcher was killed."""
    leaving = threading.Timer(1.0, other.kill)
    leaving.start()
    claim(tmp_path)
    assert json.loads((tmp_path / ALIVE).read_text())["pid"] == os.getpid()
    leaving.join()


def test_the_living_are_refused_by_name_and_the_dead_are_not(
    tmp_path: Path, other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEAVES_S", 0.5)
    for refuse in (refuse_alive, claim):
        with pytest.raises(UsageError, match=f"still running in it: process {other.pid} on "):
            refuse(tmp_path)
    other.kill()
    began = time.monotonic()
    while lease._started(other.pid) is not None:  # killed, but perhaps not at once
        assert time.monotonic() < began + 30
    claim(tmp_path)  # not reaped yet: its remains hold nothing
    assert json.loads((tmp_path / ALIVE).read_text())["pid"] == os.getpid()
    assert [path.name for path in tmp_path.iterdir()] == [ALIVE]


def test_a_process_id_that_was_given_again_holds_nothing(
    tmp_path: Path, other: subprocess.Popen[str]
) -> None:
    held = json.loads((tmp_path / ALIVE).read_text())
    (tmp_path / ALIVE).write_text(json.dumps({**held, "started": "1"}))
    refuse_alive(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff", b"[]"])
def test_of_what_cannot_be_read_the_beats_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(lease, "DEAD_S", 0.3)
    (tmp_path / ALIVE).write_bytes(content)
    refuse_alive(tmp_path)


def test_on_another_host_the_beats_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "DEAD_S", 20.0)
    claim(tmp_path)
    elsewhere(tmp_path)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.1):
            os.utime(tmp_path / ALIVE)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(UsageError, match=r"process \d+ on far"):
            refuse_alive(tmp_path)
    finally:
        done.set()
        thread.join()
    # Long untouched: nobody waits.
    os.utime(tmp_path / ALIVE, (time.time() - 100, time.time() - 100))
    began = time.monotonic()
    claim(tmp_path)
    assert time.monotonic() < began + 10


def test_a_holder_beats_and_no_longer_when_another_took_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.02)
    claim(tmp_path)
    os.utime(tmp_path / ALIVE, (1.0, 1.0))
    with beating(tmp_path):
        end = time.monotonic() + 30
        while (tmp_path / ALIVE).stat().st_mtime == 1.0:
            assert time.monotonic() < end
        elsewhere(tmp_path)
        time.sleep(0.1)
        os.utime(tmp_path / ALIVE, (1.0, 1.0))
        time.sleep(0.2)
        assert (tmp_path / ALIVE).stat().st_mtime == 1.0


def test_an_attempt_holds_its_run_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_attempt(create_run("x", root=tmp_path))
    assert (run.path / ALIVE).exists()
    end_attempt(run, 0)
    assert not (run.path / ALIVE).exists()
    release(run.path)
    monkeypatch.setenv("CLUSTERLAB_RUN_DIR", str(run.path))
    command = [sys.executable, "-c", _HOLD, str(run.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(UsageError, match="still running"):
            given_or_new_run("y")
        with pytest.raises(UsageError, match="still running"):
            start_attempt(run)
        process.kill()
    assert open_run(run.path).attempt == 1
    given_or_new_run("y")
