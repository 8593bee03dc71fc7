"""Where a command stands that does steps which are no points of a sweep.

On stderr: one line that is replaced on a terminal, a line for each tenth otherwise.
"""

from __future__ import annotations

import sys
from typing import TextIO

from clusterlab.report.text import plain


class StepProgress:
    """Counts ``total`` steps."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        """``stream`` is stderr unless given."""
        self._stream = sys.stderr if stream is None else stream
        self._total = total
        self._done = 0

    def step(self, what: str) -> None:
        """The next step is done: ``what`` it was."""
        before, self._done = self._done, self._done + 1
        line = f"[{self._done}/{self._total}] {plain(what)}"
        if self._stream.isatty():
            self._say(f"\r\x1b[K{line[:78]}")
        elif 10 * before // self._total < 10 * self._done // self._total:
            self._say(line + "\n")

    def close(self) -> None:
        """Leave the terminal's line empty."""
        if self._stream.isatty():
            self._say("\r\x1b[K")

    def _say(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # whoever read stderr is gone: the measurement goes on
            pass
