"""What NCCL says of its own init, caught in a file.

``Init timings`` is printed under NCCL_DEBUG=INFO to whoever listens to INIT or PROFILE (src/init.cc since
2.22), ``Bootstrap timings`` to BOOTSTRAP or PROFILE (src/bootstrap.cc since 2.23). INIT and BOOTSTRAP are
asked for: PROFILE alone would hide what went wrong.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

_LISTENING = ("INFO", "TRACE")


@contextmanager
def caught_output(environ: MutableMapping[str, str]) -> Iterator[Callable[[], str]]:
    """NCCL's output so far, as a function. To be entered before NCCL's first call.

    A file that the user chose stays in use; other processes may write to it too. NCCL empties a file when
    it opens it (src/debug.cc), so all of it is of this job. What a user wanted on the terminal is printed
    there in the end, and so is all of it when the block fails.
    """
    wanted = environ.get("NCCL_DEBUG", "")
    if wanted.upper() not in _LISTENING:
        environ["NCCL_DEBUG"] = "INFO"
    environ["NCCL_DEBUG_SUBSYS"] = subsystems(environ.get("NCCL_DEBUG_SUBSYS"))
    chosen = environ.get("NCCL_DEBUG_FILE")
    if chosen:
        path = Path(expand(chosen))
        yield lambda: _read(path)
        return
    with tempfile.TemporaryDirectory(prefix="clusterlab-nccl-") as folder:
        path = Path(folder) / "nccl.log"
        environ["NCCL_DEBUG_FILE"] = str(path)
        try:
            yield lambda: _read(path)
        except BaseException:
            sys.stderr.write(_read(path))
            raise
        if wanted:
            sys.stderr.write(_read(path))


def subsystems(wanted: str | None) -> str:
    """``wanted`` (NCCL_DEBUG_SUBSYS) with INIT and BOOTSTRAP; a list that begins with ^ names exceptions."""
    needed = ("INIT", "BOOTSTRAP")
    if not wanted:
        return ",".join((*needed, "ENV"))
    if wanted.startswith("^"):
        kept = [w for w in wanted[1:].split(",") if w.upper() not in needed]
        return "^" + ",".join(kept) if kept else "ALL"
    return ",".join((wanted, *(w for w in needed if w not in wanted.upper().split(","))))


def expand(pattern: str) -> str:
    """A NCCL_DEBUG_FILE as NCCL does: %h is the host's short name, %p the process, %% a percent sign."""
    host = socket.gethostname().partition(".")[0]
    swaps = {"h": host, "p": str(os.getpid()), "%": "%"}
    text, rest = "", pattern
    while "%" in rest:
        before, _, rest = rest.partition("%")
        text += before + swaps.get(rest[:1], "%" + rest[:1])
        rest = rest[1:]
    return text + rest


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""  # NCCL was not called, or writes elsewhere
