"""A deadline for every point: a rank that hangs says where, and ends.

A collective that one rank never joins blocks the others inside the backend, where no Python exception
reaches them. A second thread watches the clock, writes what it can to stderr, and ends the process.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from clusterlab.bench.faults import naming_lost_peers
from clusterlab.core.errors import ExitCode

if TYPE_CHECKING:
    from torch.distributed import Store


class Arrivals:
    """Which ranks have begun which point, kept in the job's store."""

    def __init__(self, store: Store | None, rank: int, world_size: int) -> None:
        # A connection of its own where torch can make one: the watchdog reads while the main thread may
        # sit in a store call.
        clone = getattr(store, "clone", None)
        self._store: Store | None = clone() if clone is not None else store
        self._rank = rank
        self._world_size = world_size
        # All ranks make the same calls on one store, so counting one's own tells which this is.
        self._sweep = self._store.add(f"clusterlab/bench/sweeps/{rank}", 1) if self._store else 0

    def mark(self, number: int) -> None:
        """This rank begins point ``number``."""
        if self._store is not None:
            self._store.set(self._key(self._rank), str(number))

    def missing(self, number: int) -> list[int]:
        """Ranks that have not begun point ``number``, as far as this rank can say.

        Rank 0 looks at all ranks. The others look at rank 0 only: it names the rest, and should it be
        the one that hangs, they name it. Nobody can say anything without a store.
        """
        if self._store is None:
            return []
        ranks = range(self._world_size) if self._rank == 0 else range(1)
        try:
            return [r for r in ranks if self._last(self._store, r) < number]
        except RuntimeError:  # the rank that serves the store is gone
            return []

    def _last(self, store: Store, rank: int) -> int:
        key = self._key(rank)
        return int(store.get(key)) if store.check([key]) else -1

    def _key(self, rank: int) -> str:
        return f"clusterlab/bench/sweep-{self._sweep}/arrived/{rank}"


class Watchdog:
    """Ends this process with exit code 4 when a guarded block outlasts ``deadline_s`` (0: never).

    Before it does, it writes to stderr which point it was, which ranks had not arrived (where a store is
    known) and the stack of every thread.
    """

    def __init__(self, deadline_s: float, rank: int, arrivals: Arrivals) -> None:
        self._deadline_s = deadline_s
        self._rank = rank
        self._arrivals = arrivals
        self._changed = threading.Condition()
        self._guarded: tuple[int, str, float] | None = None  # number, label, when it is too late
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        if self._deadline_s > 0:
            self._thread.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    @contextmanager
    def guard(self, number: int, label: str) -> Iterator[None]:
        """Guard point ``number``, called ``label`` in messages. A lost peer is a DeadlineError."""
        self._set((number, label, time.monotonic() + self._deadline_s))
        try:
            with naming_lost_peers(label):
                self._arrivals.mark(number)
                yield
        finally:
            self._set(None)

    def _set(self, guarded: tuple[int, str, float] | None) -> None:
        with self._changed:
            self._guarded = guarded
            self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                if self._guarded is None:
                    self._changed.wait()
                    continue
                number, label, too_late = self._guarded
                left_s = too_late - time.monotonic()
                if left_s <= 0:
                    self._expire(number, label)
                self._changed.wait(left_s)

    def _expire(self, number: int, label: str) -> None:
        missing = self._arrivals.missing(number)
        print(expiry_message(self._rank, label, self._deadline_s, missing), file=sys.stderr)
        sys.stderr.flush()
        faulthandler.dump_traceback(all_threads=True)
        sys.stdout.flush()
        os._exit(ExitCode.DEADLINE)


def expiry_message(rank: int, label: str, deadline_s: float, missing: list[int]) -> str:
    """What the watchdog says; ``missing`` are the ranks known not to have begun the point."""
    text = f"rank {rank}: {label}: not finished within the deadline of {deadline_s:g} s"
    if not missing:
        return text
    ranks = ", ".join(map(str, missing))
    return text + f"; {'rank' if len(missing) == 1 else 'ranks'} {ranks} had not begun it"
