from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from clusterlab.lab import processes


def test_a_process_is_known_by_pid_and_start(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    found = processes.process(child.pid)
    assert found is not None
    assert found.parent == os.getpid()
    assert child.pid in processes.processes()
    assert processes.command_line(child.pid) in (["sleep", "60"], [sys.executable])
    child.kill()
    # A zombie counts as gone.
    assert processes.wait_until(lambda: processes.process(child.pid) is None, timeout_s=5)
    child.wait()
    assert processes.command_line(child.pid) == []


def test_a_whole_tree_ends() -> None:
    child = subprocess.Popen(["sh", "-c", "sleep 60 & sh -c 'sleep 61 & wait' & wait"])
    assert processes.wait_until(lambda: len(processes.descendants(child.pid)) == 3, timeout_s=5)
    below = processes.descendants(child.pid)
    assert processes.kill_tree(child.pid)
    child.wait(timeout=5)
    assert [pid for pid in below if processes.process(pid)] == []


def test_a_listening_port_is_seen_without_connecting() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not processes.listening(port)
        server.listen()
        assert processes.listening(port)
    assert not processes.listening(port)


def test_spawn_appends_to_the_log_and_starts_a_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text in ("one", "two"):
        script = f"echo {text}; echo err >&2; ps -o sid= -p $$ | tr -d ' '; echo $X"
        pid = processes.spawn(["sh", "-c", script], {"PATH": "/usr/bin:/bin", "X": "set"}, log)
        assert os.waitpid(pid, 0)[1] == 0
        assert str(pid) in log.read_text().split()
    words = log.read_text().split()
    assert [word for word in words if not word.isdigit()] == [
        *("one", "err", "set"),
        *("two", "err", "set"),
    ]
