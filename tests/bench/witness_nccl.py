"""An NCCL that only logs. It reads its settings and opens its file when src/debug.cc does since 2.27."""

from __future__ import annotations

import os
from collections.abc import Callable

from clusterlab.bench.witness.library import Library

_DEFAULT = "INIT,BOOTSTRAP,ENV"
_LEVELS = {"VERSION": 1, "WARN": 2, "INFO": 3, "ABORT": 4, "TRACE": 5}
_UNREAD = -1


class LoggingNccl:
    """``stdout`` is what went to standard output; ``reads`` how often the settings were read."""

    def __init__(self, version: tuple[int, int, int] = (2, 28, 9)) -> None:
        self.stdout: list[str] = []
        self.reads = 0
        self._level = _UNREAD
        self._subsystems: set[str] = set()
        self._file: int | None = None
        reset = self._reset if version >= (2, 27, 0) else None
        self.library = Library("/lib/libnccl.so.2", version, reset)

    def find(self) -> Library | None:
        """As loaded_library does."""
        return self.library

    def info(self, subsystem: str, message: str) -> None:
        """An INFO line."""
        self._log(3, subsystem, f"n7:10:11 [0] NCCL INFO {message}")

    def warn(self, message: str) -> None:
        """A WARN line: of every subsystem, with a blank line before it."""
        self._log(2, None, f"\nn7:10:11 [0] net.cc:5 NCCL WARN {message}")

    def _reset(self) -> None:
        self._level = _UNREAD

    def _log(self, level: int, subsystem: str | None, line: str) -> None:
        if self._level == _UNREAD:
            self._read_settings()
        if level > self._level or (subsystem and not self._subsystems & {subsystem, "ALL"}):
            return
        if self._file is None:
            self.stdout.append(line)
        else:
            os.write(self._file, f"{line}\n".encode())

    def _read_settings(self) -> None:
        self.reads += 1
        if self._file is not None:
            os.close(self._file)
            self._file = None
        level = os.environ.get("NCCL_DEBUG")
        self._level = 0 if level is None else _LEVELS.get(level.upper(), _UNREAD)
        self._subsystems = set(os.environ.get("NCCL_DEBUG_SUBSYS", _DEFAULT).split(","))
        name = os.environ.get("NCCL_DEBUG_FILE")
        if self._level > 1 and name:
            path = name.replace("%%", "\0").replace("%h", "n7").replace("%p", str(os.getpid()))
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            self._file = os.open(path.replace("\0", "%"), flags, 0o644)

    def __del__(self) -> None:
        if self._file is not None:
            os.close(self._file)


class Communicator:
    """What LoggingNccl says of a communicator of two: made, connected when first used, called."""

    def __init__(self, nccl: LoggingNccl, via: str = "P2P/CUMEM", index: int = 0) -> None:
        self._nccl, self._via, self._index, self._connected = nccl, via, index, False
        nccl.info("INIT", "NCCL version 2.28.9+cuda13.0")
        nccl.info("ENV", "NCCL_NTHREADS set by environment to 256.")
        for name in ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"):
            if path := os.environ.get(name):
                nccl.info("ENV", f"{name} set by environment to {path}")
                with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
                    file.write("<system/>")
        nccl.info(
            "GRAPH",
            "Pattern 4, crossNic 0, nChannels 1, bw 30.0/30.0, type NVL/PIX, sameChannels 1",
        )
        nccl.info("TUNING", "     Algorithm |     Tree |    Ring |")

    def call(self, line: str | None) -> Callable[[], None]:
        """One call, which prints ``line`` of its choice."""

        def made() -> None:
            if not self._connected:
                self._connected = True
                self._nccl.info("INIT", f"Channel 00/{self._index} : 0[0] -> 1[1] via {self._via}")
            if line is None:
                self._nccl.info("P2P", "a send")
            else:
                self._nccl.info("TUNING", line)

        return made
