"""The output of local ranks: every line tagged with its rank, in a log file or on stderr."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

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
    target: BinaryIO | None
    pending: bytes = b""

    @classmethod
    def open(cls, rank: int, log_dir: Path | None) -> TaggedOutput:
        """Output of ``rank``, appended to ``log_dir``/rank-N.log; without a log_dir, on stderr."""
        log = log_dir / f"rank-{rank}.log" if log_dir is not None else None
        target: BinaryIO = sys.stderr.buffer
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            target = log.open("ab")
        fd, child_fd = os.pipe()
        os.set_blocking(fd, False)
        return cls(rank, fd, child_fd, log, target)

    def close_child_end(self) -> None:
        """After the fork: the launcher keeps only the reading end."""
        os.close(self.child_fd)

    def pump(self) -> None:
        """Pass on what the rank has written so far."""
        try:
            chunk = os.read(self.fd, MAX_LINE_BYTES)
        except BlockingIOError:
            return
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        if len(self.pending) >= MAX_LINE_BYTES:
            lines.append(self.pending)
            self.pending = b""
        self._write(lines)

    def close(self) -> None:
        """The rank has ended: pass on the rest."""
        before = None
        while before != self.pending:
            before = self.pending
            self.pump()
        if self.pending:
            self._write([self.pending])
        os.close(self.fd)
        if self.target is not None and self.log is not None:
            self.target.close()

    def _write(self, lines: list[bytes]) -> None:
        if self.target is None or not lines:
            return
        tag = f"[rank {self.rank}] ".encode()
        try:
            self.target.write(b"".join(tag + line + b"\n" for line in lines))
            self.target.flush()
        except OSError as error:
            # A full disk must not end a running sweep over its log.
            print(f"rank {self.rank}: log lost: {error.strerror}", file=sys.stderr)
            self.target = None
