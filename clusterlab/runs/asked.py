"""What signals ask of a run that ends at a good place: SIGTERM and SIGINT to stop, SIGUSR1 to keep state."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Asked:
    """``stop`` is the signal that asked for an end, 0 for none; ``save``: state is to be kept soon."""

    stop: int = 0
    save: bool = False

    def on_stop(self, number: int, _frame: object) -> None:
        """The first one asks, the second ends."""
        if self.stop:
            raise SystemExit(128 + number)
        self.stop = number

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
