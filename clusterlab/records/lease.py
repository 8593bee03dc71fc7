"""alive.json: who measures in a run directory now, so that a second start does not join in.

The holder notes itself, and touches the file every ``BEAT_S`` (``beating``). Whether it lives is asked of the
kernel where that knows its process; elsewhere by whether the file is still touched, with the file
system's own clock. No locks, which NFS and Lustre may lack: only creation of a file that must not be there,
and renames.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from clusterlab.core.errors import UsageError
from clusterlab.records.files import storage_error
from clusterlab.records.reading import open_regular, parse_json, read_regular
from clusterlab.records.strict import checked

ALIVE = "alive.json"

BEAT_S = 10.0
DEAD_S = 60.0
"""Untouched for so long, the holder is gone: several beats, and as long as NFS may keep attributes."""

LEAVES_S = 12.0
"""So long a living holder is given: ranks whose launcher was killed are gone after some seconds."""

_POLL_S = 1.0

_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class _Holder:
    """A process. ``kernel``: the boot and namespace in which ``pid`` counts; ``started``: in its ticks."""

    host: str
    pid: int
    kernel: str
    started: str


@dataclass(frozen=True, slots=True)
class Sign:
    """What alive.json says to who only looks. ``lives``: by the kernel that runs both; None where another
    does, and only ``touched`` (seconds, the file system's clock) can tell.
    """

    who: str
    lives: bool | None
    touched: float


def sign_of_life(folder: Path) -> Sign | None:
    """Of who measures in the run ``folder``; None where nobody says to. Reads only."""
    try:
        with open_regular(folder / ALIVE) as file:  # opening makes NFS look again
            touched = os.fstat(file.fileno()).st_mtime
    except (OSError, UsageError):
        return None
    held = _read(folder / ALIVE)
    if held is None:
        return Sign("another process", None, touched)
    same = held.kernel == _kernel()
    lives = _started(held.pid) == held.started if same else None
    return Sign(f"process {held.pid} on {held.host}", lives, touched)


def refuse_alive(folder: Path) -> None:
    """Raise UsageError while another process measures in the run ``folder``. Waits ``DEAD_S`` at most, where
    only its beats can tell.
    """
    file = folder / ALIVE
    first_mtime = _mtime(file)
    if first_mtime is None:
        return
    held = _read(file)
    if held is not None and (held.kernel == _kernel()):
        # Not where it is this process: a run that is started twice in one.
        leaves = time.monotonic() + LEAVES_S
        while held.pid != os.getpid() and _started(held.pid) == held.started:
            if time.monotonic() > leaves:
                raise _alive(folder, held)
            time.sleep(min(_POLL_S, LEAVES_S) / 5)
        return
    end = time.monotonic() + max(0.0, DEAD_S - (_now(folder) - first_mtime))
    while time.monotonic() < end:
        time.sleep(min(_POLL_S, DEAD_S / 10))
        _now(folder)  # a change of the folder makes NFS look again
        if _mtime(file) not in (first_mtime, None):
            raise _alive(folder, held)


def claim(folder: Path) -> None:
    """Note this process as the one that measures in ``folder``. Raises UsageError where another does."""
    refuse_alive(folder)
    file = folder / ALIVE
    with suppress(FileNotFoundError):
        file.rename(gone := folder / f".{ALIVE}.{secrets.token_hex(4)}")
        gone.unlink()
    mine = _Holder(socket.gethostname(), os.getpid(), _kernel(), _started(os.getpid()) or "")
    try:
        fd = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            os.write(fd, json.dumps(asdict(mine)).encode() + b"\n")
        finally:
            os.close(fd)
    except FileExistsError:
        raise _alive(folder, _read(file)) from None
    except OSError as error:
        raise storage_error(file, error) from error


def release(folder: Path) -> None:
    """Nobody measures in ``folder`` any more."""
    with suppress(OSError):
        (folder / ALIVE).unlink()


@contextmanager
def beating(folder: Path, rank: int = 0) -> Iterator[None]:
    """Say every ``BEAT_S`` that this process lives, while it is what ``claim`` noted: rank 0."""
    if rank != 0:
        yield
        return
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT_S):
            held = _read(folder / ALIVE)
            if held is not None and (held.pid, held.kernel) == (os.getpid(), _kernel()):
                with suppress(OSError):
                    os.utime(folder / ALIVE)

    thread = threading.Thread(target=beat, name="beating", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _alive(folder: Path, held: _Holder | None) -> UsageError:
    who = "another process" if held is None else f"process {held.pid} on {held.host}"
    return UsageError(
        f"an attempt is still running in it: {who}", where=str(folder),
        expected="one attempt at a time", fix="wait for it, stop it, or start a new run",
    )  # fmt: skip


def _read(file: Path) -> _Holder | None:
    """None: half-written, or of a release that notes something else."""
    try:
        said = read_regular(file, most_bytes=_MOST_BYTES)
        return _Holder(**checked(parse_json(said, where=str(file)), _Holder, where=str(file)))
    except (OSError, UsageError):
        return None


def _mtime(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _now(folder: Path) -> float:
    """By the clock of the file system, which need not be this host's."""
    probe = folder / f".{ALIVE}.{secrets.token_hex(4)}"
    try:
        probe.touch(exist_ok=False)
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with suppress(OSError):
            probe.unlink()


def _kernel() -> str:
    """Process ids with the same are of one kernel and one namespace; of no other where it does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115
    except OSError:
        return f"unknown {socket.gethostname()} {os.getpid()}"


def _started(pid: int) -> str | None:
    """When process ``pid`` began (proc(5), field 22); None where there is none, or only its remains."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
