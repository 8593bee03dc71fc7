"""Processes as /proc shows them: who is alive, who descends from whom, ending a whole tree."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DAEMON_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table. (pid, start) is never reused; ``state`` is proc(5)'s letter."""

    pid: int
    parent: int
    state: str
    start: str


def process(pid: int) -> Process | None:
    """The process ``pid``, or None when there is none.

    A zombie counts as none: it only waits for its parent to ask.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name may hold spaces and brackets: fields count from the last ')'.
    rest = text.rpartition(")")[2].split()
    found = Process(pid, int(rest[1]), rest[0], rest[19])
    return None if found.state in "ZX" else found


def processes() -> dict[int, Process]:
    """Every living process of this pid namespace."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: found for pid in pids if (found := process(pid))}


def command_line(pid: int) -> list[str]:
    """The arguments of process ``pid``; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [part.decode(errors="replace") for part in text.split(b"\0")[:-1]]


def descendants(pid: int) -> list[int]:
    """Living processes below ``pid``, nearest first."""
    table = processes()
    below: list[int] = []
    layer = {pid}
    while layer:
        layer = {found.pid for found in table.values() if found.parent in layer}
        below += sorted(layer)
    return below


def kill_tree(pid: int, *, timeout_s: float = 5.0) -> bool:
    """SIGKILL everything below ``pid``, then ``pid``. False when some of it survived ``timeout_s``.

    Where ``pid`` is a subreaper, orphans fall back to it, so nothing escapes.
    """
    deadline = time.monotonic() + timeout_s
    while below := descendants(pid):
        # Parents first: a shell must not go on to its next line because its child has died.
        for child in below:
            _kill(child)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    _kill(pid)
    return wait_until(lambda: process(pid) is None, timeout_s=timeout_s)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], *, timeout_s: float, step_s: float = 0.005) -> bool:
    """Poll ``condition``; False when it did not hold within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(step_s)
    return True


def spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Start ``command`` in a session of its own, output appended to ``log``; returns its pid."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawnp(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        # Inherited by children: a lab must not start with the signals its starter had blocked.
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGPIPE, signal.SIGHUP, signal.SIGTERM],
    )


def listening(port: int) -> bool:
    """Whether some socket of this network namespace listens on TCP ``port`` (no connection is made)."""
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except FileNotFoundError:
            continue
        for line in lines:
            fields = line.split()
            # 0A is TCP_LISTEN (include/net/tcp_states.h).
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return True
    return False
