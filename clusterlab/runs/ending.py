"""The end of a rank that a launcher started, told once: also when SIGTERM ends it (scancel, a time limit,
the death of another rank).

Slurm and torchrun send SIGKILL some 30 s after SIGTERM, and rank 0 has a run to finish before that. Python
calls a signal's handler between two steps of its own, but a rank mostly waits inside a library, for peers
that may never come. So a thread hears of the signal too, and ends the process where the main thread does
not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from clusterlab.core.errors import ClusterlabError, DeadlineError

STOPPED = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM ended, as a shell shows it."""

LATE_S = 3.0
"""What the main thread gets to end by itself. A lab's KillWait is 5 s."""

_HEARD_S = 0.5
_OTHERS_S = 0.5
"""A launcher signals the ranks one after the other: to one that has not heard yet, one that left at once
would be a lost peer."""


class Ending:
    """Ends this process on SIGTERM while the block runs, with exit code 143. Main thread only.

    ``finish`` tells the end of the run, given the exit code; its result is the process's. None, as on ranks
    other than 0: there is nothing to tell. A handler that the block puts in place of this one (a trainer's,
    which writes a checkpoint) has the signal for as long as it is there.
    """

    def __init__(self, rank: int) -> None:
        self.finish: Callable[[int], int] | None = None
        self._rank = rank
        self._came = False
        self._told = False
        self._one = threading.Lock()  # taken for good by the thread that tells the end
        self._heard = threading.Event()
        self._left = threading.Event()
        self._was_ending = False
        self._code = STOPPED

    def __enter__(self) -> Ending:
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._writes, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        self._thread = threading.Thread(target=self._watch, name="ending", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._came and isinstance(error, SystemExit):
            # Not sys.exit: a process group whose peers are gone may block what Python does at its end.
            if not self._told:
                self.tell(STOPPED, self.finish or _as_it_is)
            _leave(self._code)
        if isinstance(error, DeadlineError):
            # Peers hear of a lost rank by the end of those that noticed, for which Python takes seconds where
            # CPUs are busy: Slurm would end them all before (srun --wait).
            if not error.said:
                print(f"clusterlab: {error}", file=sys.stderr)
            _leave(int(error.exit_code))
        self._left.set()
        signal.signal(signal.SIGTERM, self._before)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._writes)  # ends the thread
        self._thread.join()
        os.close(self._reads)

    def tell(self, code: int, finish: Callable[[int], int]) -> int:
        """``finish(code)``, unless the end is told already: then this process is about to end."""
        if not self._one.acquire(blocking=False):
            self._thread.join()
        self._told = True
        self._code = finish(code)
        return self._code

    def _on_signal(self, _number: int, _frame: object) -> None:
        if self._came:
            return  # one stop may come as several signals
        self._came = True
        self._heard.wait(_HEARD_S)
        if self._one.locked() or self._was_ending:
            return  # what it is about to say of the reason is worth more
        if self._rank:
            time.sleep(_OTHERS_S)
        raise SystemExit(STOPPED)

    def _watch(self) -> None:
        while signal.SIGTERM not in (heard := os.read(self._reads, 64)) or not self._is_ours():
            if not heard:
                return
        # As it was when the signal came: its handler may run only when what a peer's end, by the same signal,
        # has raised is being handled.
        self._was_ending = _handles_an_error(threading.main_thread())
        self._heard.set()
        if self._left.wait(LATE_S):
            return
        if self._one.acquire(blocking=False):
            try:
                self._code = (self.finish or _as_it_is)(STOPPED)
            except ClusterlabError as error:
                print(f"clusterlab: {error}", file=sys.stderr)
            except Exception:
                traceback.print_exc()
        else:
            self._left.wait(LATE_S)
        _leave(self._code)

    def _is_ours(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self._on_signal


def _handles_an_error(thread: threading.Thread) -> bool:
    """Whether ``thread`` is in an ``except``, as it is while it finds out which peer it lost."""
    found: Any = sys._current_exceptions().get(thread.ident or 0)
    if isinstance(found, tuple):  # before Python 3.12: type, value, traceback
        found = found[1]
    return found is not None


def _as_it_is(code: int) -> int:
    return code


def _leave(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
