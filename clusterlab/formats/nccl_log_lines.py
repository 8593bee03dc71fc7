"""Lines of NCCL_DEBUG output: who printed them, and what stands after the prefix.

``host:pid:tid [cudaDev] NCCL INFO …`` (src/debug.cc), with what launchers, time stamps and patched
builds put before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEVEL = re.compile(r"NCCL (INFO|WARN|TRACE|CALL|ABORT)(?: (.*))?$")
_WRITER = re.compile(r"(?<![\w.])([A-Za-z0-9][\w.-]{0,253}):(\d{1,10}):(\d{1,10}) ")
_DEV = re.compile(r"\[(-?\d{1,4})\] ")
_HEAD = 400  # characters before NCCL's word in which its prefix stands


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. ``message`` keeps its indentation. None: the line does not say."""

    number: int
    host: str | None
    pid: int | None
    tid: int | None
    dev: int | None
    level: str
    message: str

    @property
    def writer(self) -> tuple[str | None, int | None, int | None, int | None]:
        """Whose line it is: lines of several ranks are mixed in one file."""
        return self.host, self.pid, self.tid, self.dev


def log_lines(text: str) -> Iterator[LogLine]:
    """The lines of ``text`` that NCCL printed."""
    for number, line in enumerate(text.splitlines(), 1):
        found = _LEVEL.search(line) if "NCCL " in line else None
        if found is None:
            continue
        head = line[max(0, found.start() - _HEAD) : found.start()]
        writer = _WRITER.search(head)
        dev = _DEV.search(head, writer.end() if writer else 0)
        yield LogLine(
            number,
            writer.group(1) if writer else None,
            int(writer.group(2)) if writer else None,
            int(writer.group(3)) if writer else None,
            int(dev.group(1)) if dev else None,
            found.group(1),
            found.group(2) or "",
        )
