"""Where a sweep stands: a live bar on a terminal, a few plain lines otherwise, always on stderr's side.

Table lines go to stdout. Where stdout is the terminal too, the bar must step aside for every line, so
both are drawn by one rich console; where stdout is a file or a pipe, lines go straight to it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Protocol, TextIO

from clusterlab.core.pairs import ranks_in_words
from clusterlab.core.rows import Point
from clusterlab.core.sizes import human_size
from clusterlab.report.text import plain


class Progress(Protocol):
    """What a sweep tells of itself."""

    def line(self, text: str) -> None:
        """Print one line of the table on stdout."""

    def start(self, point: Point) -> None:
        """A point is about to be measured."""

    def done(self) -> None:
        """The point started last is finished."""

    def close(self) -> None:
        """Leave the terminal as it was; a second call does nothing."""


def open_progress(
    total: int, *, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> Progress:
    """The progress display that suits the two streams, for ``total`` points."""
    stdout = sys.stdout if stdout is None else stdout
    stderr = sys.stderr if stderr is None else stderr
    if stderr.isatty():
        return LiveProgress(total, stdout, stderr)
    return PlainProgress(total, stdout, stderr)


def print_or_give_up(text: str, stream: TextIO, complain: TextIO | None) -> TextIO:
    """Print ``text`` on ``stream``; the stream for the next line.

    A reader that has gone (`| head`) or a full disk under a redirection must not end a measurement:
    it is said once on ``complain``, the rows are on disk, and the next lines go nowhere.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        if complain is not None and not isinstance(error, BrokenPipeError):
            print(f"clusterlab: the table goes no further: {error.strerror}", file=complain)
        return Path(os.devnull).open("w", encoding="utf-8")
    return stream


def describe(point: Point) -> str:
    """A point in words: ``all_reduce float32 sum 4 KiB in place``, ``send float32 4 KiB rank 0 → 3``,
    ``all_reduce float32 sum 4 KiB ranks 0-3``.
    """
    words = [point.collective, point.dtype, point.op or "", human_size(point.size_bytes)]
    if point.ranks is not None:
        words.append(ranks_in_words(point.collective, point.ranks))
    return " ".join(w for w in words if w) + (" in place" if point.in_place else "")


class PlainProgress:
    """For logs: one line when a collective is met first and at every tenth of the sweep, no more."""

    def __init__(self, total: int, stdout: TextIO, stderr: TextIO) -> None:
        self._total = total
        self._stdout = stdout
        self._stderr = stderr
        self._finished = 0
        self._met: set[str] = set()

    def line(self, text: str) -> None:
        """Print one line of the table on stdout, at once."""
        self._stdout = print_or_give_up(text, self._stdout, self._stderr)

    def start(self, point: Point) -> None:
        """Say so when the point is the first of its collective."""
        if point.collective not in self._met:
            self._met.add(point.collective)
            self._say(f"{describe(point)} …")

    def done(self) -> None:
        """Say so when another tenth is finished."""
        before = self._finished * 10 // max(1, self._total)
        self._finished += 1
        after = self._finished * 10 // max(1, self._total)
        if after > before:
            self._say("done")

    def close(self) -> None:
        """Nothing to restore."""

    def _say(self, text: str) -> None:
        line = f"[{self._finished}/{self._total}] {plain(text)}"
        self._stderr = print_or_give_up(line, self._stderr, None)


class LiveProgress:
    """For a terminal: a bar, the point being measured, and the time left."""

    def __init__(self, total: int, stdout: TextIO, stderr: TextIO) -> None:
        # rich takes 30 ms to import: only a terminal pays for it.
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import (
            Progress as RichProgress,
        )

        self._stdout = stdout
        self._shared = stdout.isatty()
        self._console = Console(file=stdout if self._shared else stderr)
        # redirect_*: rich would send stdout through the bar's console, that is, a redirected table
        # to stderr. Lines are routed in ``line`` instead.
        self._bar = RichProgress(
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=True,
        )
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def line(self, text: str) -> None:
        """Print one line of the table on stdout, above the bar where both share the terminal."""
        if self._shared:
            # No wrapping and no highlighting: the terminal breaks long lines, copies stay whole.
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stdout = print_or_give_up(text, self._stdout, sys.stderr)

    def start(self, point: Point) -> None:
        """Name the point beside the bar."""
        self._bar.update(self._task, description=plain(describe(point)))

    def done(self) -> None:
        """Advance the bar by one point."""
        self._bar.advance(self._task)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()
