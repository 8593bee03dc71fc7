"""The few system calls that Python has no name for, and what a subreaper does when it is told to end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Sequence

from clusterlab.lab.processes import descendants, kill_tree

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def set_hostname(name: str) -> None:
    """Name this host, in a uts namespace of its own."""
    socket.sethostname(name)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def adopt_orphans() -> None:
    """Become the subreaper: what runs below us stays below us when its parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Get SIGTERM when our parent ends, however it ends."""
    parent = os.getppid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def with_death_signal(command: Sequence[str]) -> list[str]:
    """``command``, killed when its parent ends, however that ends."""
    return ["setpriv", "--pdeathsig", "KILL", *command]


def end_tree_on_sigterm() -> None:
    """On SIGTERM end everything below us, then ourselves."""

    def end(*_: object) -> None:
        for child in descendants(os.getpid()):
            kill_tree(child)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        os._exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
