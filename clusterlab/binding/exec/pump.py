"""The process between a command and the terminal: reads what it prints, tags each line, writes it.

A process of its own, so that a signal to the whole group or job neither ends it nor loses a last line:
it blocks every signal, and ends when the command's streams do. Each stream has a thread, so that a
reader that stops reading stdout does not hold up stderr.

``control`` carries what the wrapper says: the command's pid, then single letters. Its end without ENDED
means that the wrapper was killed: the command is then killed as well, as it would have been itself.
"""

from __future__ import annotations

import os
import select
import signal
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from clusterlab.binding.exec.tagging import end_line, pieces, tag_lines

CLEAR, ENDED = b"c", b"e"
"""Wrapper → pump: forget the signals that came; the command has ended."""

CLEARED, DRAINED, CLOSED = b"c", b"d", b"x"
"""Pump → wrapper: forgotten; all that a stream held is written, it is still open; a stream has ended."""

QUIET_MS = 1000
"""A line begun is shown after this long without more."""

_CHUNK = 1 << 16
_ATOMIC = 4096  # PIPE_BUF: what several ranks write to one pipe in one go stays whole


def run_pump(tag: bytes, streams: Sequence[tuple[int, int]], control: int, status: int) -> NoReturn:
    """Serve ``streams`` ((where the command writes, where it goes)) until they end. Never returns."""
    import threading  # after the fork: the command does not wait for it

    code = 1
    try:
        threads = [
            threading.Thread(target=_copy, args=(tag, source, target, control, status))
            for source, target in streams
        ]
        for thread in threads:
            thread.start()
        _serve(control, status)
        for thread in threads:
            thread.join()
        code = 0
    finally:
        os._exit(code)


def _serve(control: int, status: int) -> None:
    said = b""
    while True:
        data = os.read(control, 64)
        if not data:
            break
        said += data
        if data.endswith(CLEAR):
            while signal.sigtimedwait(signal.valid_signals(), 0):
                pass
            _tell(status, CLEARED)
    pid, _, letters = said.partition(b"\n")
    if pid.isdigit() and ENDED not in letters:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _copy(tag: bytes, source: int, target: int, control: int, status: int) -> None:
    """Pass one stream on, line by line, until it ends."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(control, 0)  # only its end
    pending, ended, drained = b"", False, False
    out = _Target(target)
    while True:
        wait_ms = 0 if ended and not drained else QUIET_MS if pending else None
        ready = {fd for fd, _ in poll.poll(wait_ms)}
        if source in ready:
            chunk = os.read(source, _CHUNK)
            if not chunk:
                break
            text, pending = tag_lines(tag, pending, chunk)
            if not out.write(text):
                break
        elif control not in ready:
            out.write(end_line(tag, pending))
            pending = b""
            if ended and not drained:
                drained = True
                _tell(status, DRAINED)
        if control in ready and not ended:
            ended = True
            poll.unregister(control)
    out.write(end_line(tag, pending))
    os.close(source)
    os.close(target)
    if not drained:
        _tell(status, CLOSED)


class _Target:
    """Where a stream goes. Lines stay whole among writers to one pipe; a full disk is said once."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lost = False
        self._most = _ATOMIC if stat.S_ISFIFO(os.fstat(fd).st_mode) else _CHUNK

    def write(self, data: bytes) -> bool:
        """Write all of it; False when the reader has gone and the command should learn so (SIGPIPE)."""
        if self._lost:
            return True
        try:
            for piece in pieces(data, self._most):
                self._write(piece)
        except BrokenPipeError:
            return False
        except OSError as error:  # a full disk must not end the command
            self._lost = True
            complain(f"clusterlab exec: output lost: {error.strerror}")
        return True

    def _write(self, piece: bytes) -> None:
        while piece:
            try:
                piece = piece[os.write(self._fd, piece) :]
            except BlockingIOError:  # somebody made the terminal or pipe non-blocking
                select.select([], [self._fd], [])


def complain(text: str) -> None:
    """One line on stderr, where there is one."""
    with suppress(OSError):
        os.write(2, text.encode("utf-8", "surrogateescape") + b"\n")


def _tell(status: int, letter: bytes) -> None:
    with suppress(BrokenPipeError):  # the wrapper did not wait
        os.write(status, letter)
