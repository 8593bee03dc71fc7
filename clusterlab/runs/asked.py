"""What signals ask of a run that ends at a good place: SIGTERM and SIGINT to stop, SIGUSR1 to keep state."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_ONE_STOP_S = 3.0


@dataclass(slots=True)
class Asked:
    """``stop`` is the signal that asked for an end, 0 for none; ``save``: state is to be kept soon."""

    stop: int = 0
    save: bool = False
    stop_at_s: float = 0.0

    def on_stop(self, number: int, _frame: object) -> None:
        """The first one asks, a later one ends. One stop may come as two signals: by Slurm to the task, and
        by the batch script through srun.
        """
        if not self.stop:
            self.stop, self.stop_at_s = number, time.monotonic()
        elif time.monotonic() - self.stop_at_s > _ONE_STOP_S:
            raise SystemExit(128 + number)

    def on_save(self, _number: int, _frame: object) -> None:
        """Asks; nothing ends."""
        self.save = True


@contextmanager
def asked_by_signals() -> Iterator[Asked]:
    """What signals ask for while the block runs. What was ignored before stays so, but for SIGUSR1."""
    asked = Asked()
    wanted = {signal.SIGTERM: asked.on_stop, signal.SIGINT: asked.on_stop}
    handlers = {n: h for n, h in wanted.items() if signal.getsignal(n) is not signal.SIG_IGN}
    before = {
        number: signal.signal(number, handler)
        for number, handler in {**handlers, signal.SIGUSR1: asked.on_save}.items()
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
