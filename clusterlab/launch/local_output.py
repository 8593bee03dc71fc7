"""The output of local ranks: every line tagged with its rank, in a log file or on stderr."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_STDERR = 2

MAX_LINE_BYTES = 1 << 16
"""A longer line is cut here, so that a rank that never writes a newline costs no memory."""


@dataclass(slots=True)
class TaggedOutput:
    """The reading end of one rank's stdout and stderr. Written by this process, so lines stay whole.

    ``fd`` is what to wait for; ``child_fd`` is the rank's end.
    """

    rank: int
    fd: int
    child_fd: int
    log: Path | None
    target: int | None
    pending: bytes = b""

    @classmethod
    def open(cls, rank: int, log_dir: Path | None) -> TaggedOutput:
        """Output of ``rank``, appended to ``log_dir``/rank-N.log; without a log_dir, on stderr."""
        log = log_dir / f"rank-{rank}.log" if log_dir is not None else None
        target = _STDERR
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            target = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fd, child_fd = os.pipe()
        os.set_blocking(fd, False)
        return cls(rank, fd, child_fd, log, target)

    def close_child_end(self) -> None:
        """After the fork: the launcher keeps only the reading end."""
        os.close(self.child_fd)

    def pump(self) -> bool:
        """Pass on what the rank has written so far; False when there was nothing."""
        try:
            chunk = os.read(self.fd, MAX_LINE_BYTES)
        except BlockingIOError:
            return False
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        if len(self.pending) >= MAX_LINE_BYTES:
            lines.append(self.pending)
            self.pending = b""
        self._write(lines)
        return bool(chunk)

    def close(self) -> None:
        """The rank has ended: pass on the rest."""
        while self.pump():
            pass
        if self.pending:
            self._write([self.pending])
        os.close(self.fd)
        self._close_target()

    def _write(self, lines: list[bytes]) -> None:
        if self.target is None or not lines:
            return
        tag = f"[rank {self.rank}] ".encode()
        text = b"".join(tag + line + b"\n" for line in lines)
        try:
            while text:
                text = text[os.write(self.target, text) :]
        except OSError as error:
            # A full disk must not end a running sweep over its log.
            print(f"rank {self.rank}: log lost: {error.strerror}", file=sys.stderr)
            self._close_target()

    def _close_target(self) -> None:
        if self.target is not None and self.target != _STDERR:
            os.close(self.target)
        self.target = None
