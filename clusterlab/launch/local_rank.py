"""The child's side of a local launch: what a forked process does to become one rank."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from clusterlab.core.errors import ClusterlabError, UsageError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.rendezvous import Meeting, part

if TYPE_CHECKING:
    from torch.distributed import Store

OpenStore = Callable[[float], "Store"]
"""Opens the job's store; the argument is the timeout in seconds of waiting for other ranks."""

RankMain = Callable[[RankIdentity, OpenStore], int]
"""What a rank runs; its result is the rank's exit code."""

LOOPBACK = "127.0.0.1"

_PART_S = 60.0
"""For the others to be done with the store: they only have to end, but on a host that may be very busy."""

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class LocalStore:
    """The job's TCPStore on ``listening``, the launcher's socket: rank 0 serves it, the others connect.

    The launcher bound the socket before it forked, so no other process can take the port between
    choosing and using it.
    """

    def __init__(self, identity: RankIdentity, listening: socket.socket) -> None:
        self._identity, self._listening = identity, listening
        self._port = listening.getsockname()[1]
        self._meeting: Meeting | None = None
        if identity.rank != 0:
            listening.close()

    def open(self, timeout_s: float) -> Store:
        """The store; see OpenStore."""
        from torch.distributed import TCPStore

        serves = self._identity.rank == 0
        store = TCPStore(
            LOOPBACK,
            self._port,
            self._identity.world_size,
            serves,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            # the store closes the descriptor it is given
            master_listen_fd=self._listening.detach() if serves else None,
        )
        self._meeting = Meeting(store, served_here=serves, way="local")
        return store

    def leave(self) -> None:
        """Be done with it; rank 0 stays until all are. Only after success: the launcher ends who waits for
        a rank that failed.
        """
        if self._meeting is not None:
            part(self._identity, self._meeting, timeout_s=_PART_S)


def become_rank(
    identity: RankIdentity,
    rank_main: RankMain,
    *,
    parent_pid: int,
    listening: socket.socket,
    report_fd: int,
    output_fd: int | None,
    ignored: tuple[signal.Signals, ...] = (),
) -> NoReturn:
    """Run ``rank_main`` in this freshly forked process and leave the process with its exit code.

    Signals of ``ignored`` do nothing until ``rank_main`` handles them.
    ``output_fd`` replaces stdout and stderr where given. An error is written to ``report_fd`` as one
    JSON object, so that the launcher can say which rank failed first and why.
    """
    code = 1
    try:
        _die_with_parent(parent_pid)
        _restore_signals(ignored)
        if output_fd is not None:
            _redirect(output_fd)
        faulthandler.enable(
            2
        )  # not sys.stderr: notebooks and pytest have others, without a descriptor
        _one_thread()
        _prefer_loopback()
        store = LocalStore(identity, listening)
        code = rank_main(identity, store.open)
        store.leave()
    except ClusterlabError as error:
        code = error.exit_code
        if not error.said:
            _report(report_fd, str(error))
        if identity.rank != 0:  # the launcher says it on the terminal
            print(error, file=sys.stderr)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except (
        BaseException
    ) as error:  # every other way out is a bug: traceback, and the launcher is told
        traceback.print_exc()
        _report(report_fd, f"{type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: the exit handlers and buffers of the parent are not this process's to run.
        os._exit(code)


def _redirect(output_fd: int) -> None:
    """Send everything this process writes, in Python or below it, to ``output_fd``."""
    os.dup2(output_fd, 1)
    os.dup2(output_fd, 2)
    os.close(output_fd)
    # The launcher's sys.stdout need not be descriptor 1: notebooks and pytest put others in its place.
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


def _die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when the launcher dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)  # it died before the request was in place


def _restore_signals(ignored: tuple[signal.Signals, ...]) -> None:
    """SIGTERM (the launcher's request to stop) unwinds the stack. Ctrl-C and hang-up are its to handle."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, stop)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _one_thread() -> None:
    """One compute thread per rank unless OMP_NUM_THREADS says otherwise, as under torchrun."""
    import torch

    wanted = os.environ.setdefault("OMP_NUM_THREADS", "1").split(",")[0]
    if not wanted.isdecimal() or int(wanted) < 1:
        raise UsageError(f"{wanted!r}", where="OMP_NUM_THREADS", expected="a number of threads")
    torch.set_num_threads(int(wanted))


def _prefer_loopback() -> None:
    """All ranks are on this host: gloo need not resolve the host's name, which laptops often cannot."""
    if Path("/sys/class/net/lo").exists():
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _report(report_fd: int, error: str) -> None:
    # The monotonic clock is one for all processes of a host: it orders the ranks' failures.
    text = json.dumps({"error": error[:2000], "time_ns": time.monotonic_ns()})
    os.write(report_fd, text.encode())
