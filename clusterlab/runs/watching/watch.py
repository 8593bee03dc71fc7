"""Watching a run until it ends: where it stands on a terminal, a line per change elsewhere; its exit code."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TextIO

from clusterlab.core.errors import ExitCode, UsageError
from clusterlab.core.jsontext import json_text
from clusterlab.core.overlap import Overlap
from clusterlab.core.stepping import StepLine
from clusterlab.records.reading import is_there
from clusterlab.records.run_dir import RUN, runs_root
from clusterlab.report.console.watch_lines import (
    head_lines,
    in_flight_line,
    outside_line,
    progress_line,
    record_line,
    slowest_line,
    watch_lines,
)
from clusterlab.report.console.watching import Seen, SeenRow, State
from clusterlab.report.files.watch_json import seen_json
from clusterlab.report.text import cut, plain
from clusterlab.runs.watching.run import Watched

LOOK_S = 0.5
_COUNTED: dict[str, type | tuple[type, ...]] = {
    "points": SeenRow,
    "steps": StepLine,
    "overlaps": Overlap,
}
"""The records that the unit counts."""

_MOST_LETTERS = 4000
"""Of a line in a log: more is a name that nobody meant to be read."""

_FIRST = 20
"""Records of before that a log or a script is told when watching begins."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """``wait``: for what is not there yet: the directory, its first attempt, another attempt after one that
    was killed, stopped or lost a rank. ``every_s``: between two looks.
    """

    run: Path
    wait: bool = False
    once: bool = False
    as_json: bool = False
    every_s: float = LOOK_S


class Shown(Protocol):
    """Where what is seen goes."""

    def show(self, seen: Seen) -> None:
        """What is there now."""

    def close(self) -> None:
        """Nothing more comes."""


def watch(
    options: WatchOptions,
    *,
    stdout: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Show the run until it ends; the exit code of its latest attempt, 4 where it died without one.

    Raises UsageError for a run that is not there (without ``wait``) or is damaged. Ctrl-C goes through.
    """
    stdout = sys.stdout if stdout is None else stdout
    path = _found(options, sleep)
    watched = Watched(path, once=options.once, clock=clock, now=now)
    shown = _shown(options, stdout)
    try:
        while True:
            seen = watched.look()
            if options.once and seen.state == State.DEAD and seen.attempts:
                sleep(LOOK_S)  # a normal end looks so for a moment
                again = watched.look()
                seen = replace(again, new=(*seen.new, *again.new))
            goes_on = options.wait and _may_go_on(seen)
            if goes_on and seen.over:
                seen = replace(seen, said=f"{seen.said}; waiting for another attempt")
            shown.show(seen)
            if options.once or (seen.over and not goes_on):
                return _code(seen)
            sleep(options.every_s)
    finally:
        shown.close()


def _found(options: WatchOptions, sleep: Callable[[float], None]) -> Path:
    """The run's directory, once it is there."""
    said = False
    while True:
        for path in (options.run, runs_root() / options.run):
            if is_there(path / RUN):
                return path
            if path.is_dir():
                with suppress(OSError):
                    list(path.iterdir())  # makes NFS look again
        if options.run.is_file() or not options.wait or options.once:
            what = "not a run directory" if options.run.exists() else "no such run directory"
            raise UsageError(
                what, where=str(options.run), expected=f"a directory with {RUN}",
                fix="give --wait to wait until it is there",
            )  # fmt: skip
        if not said:
            print(f"clusterlab: waiting for {options.run}", file=sys.stderr, flush=True)
            said = True
        sleep(options.every_s)


def _may_go_on(seen: Seen) -> bool:
    """Whether another attempt may follow: a requeue or `clusterlab resume` makes one."""
    if seen.state == State.DEAD:
        return True
    code = seen.exit_code
    return (
        seen.state == State.ENDED and code is not None and (code == ExitCode.DEADLINE or code > 128)
    )


def _code(seen: Seen) -> int:
    """Of a run that is over its own; of a snapshot of one that is not, 0."""
    if seen.state == State.DEAD:
        return ExitCode.DEADLINE
    if seen.state == State.ENDED:
        return ExitCode.OK if seen.exit_code is None else seen.exit_code
    return ExitCode.OK


def _shown(options: WatchOptions, stdout: TextIO) -> Shown:
    if options.as_json:
        return JsonShown(stdout)
    if options.once:
        return OnceShown(stdout)
    return LiveShown(stdout) if stdout.isatty() else PlainShown(stdout)


class OnceShown:
    """One snapshot."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def show(self, seen: Seen) -> None:
        """All of it."""
        print("\n".join(watch_lines(seen, _width(self._stdout), _FIRST)), file=self._stdout)

    def close(self) -> None:
        """Nothing to do."""


class JsonShown:
    """A JSON object a line, whenever something changed."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._before: dict[str, object] | None = None

    def show(self, seen: Seen) -> None:
        """What changed, if anything; time left alone is no change."""
        if self._before is None:
            seen = replace(seen, new=seen.new[-_FIRST:])
        data = seen_json(seen)
        # What only the clock changes is no news: how long it takes, how long nothing was heard.
        same = {
            k: v for k, v in data.items()
            if k not in ("left_s", "new") and not (k == "said" and seen.state == State.SILENT)
        }  # fmt: skip
        if seen.new or same != self._before:
            print(json_text(data), file=self._stdout, flush=True)
        self._before = same

    def close(self) -> None:
        """Nothing to do."""


class PlainShown:
    """For logs: a line per record, and one when the state changes."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._said: tuple[State, int] | None = None
        self._torn: tuple[str, ...] = ()
        self._first = True

    def show(self, seen: Seen) -> None:
        """What is new."""
        new, now = seen.new, (seen.state, len(seen.attempts))
        changed, self._said = now != self._said, now
        if self._first:
            self._say(head_lines(seen)[0])
        if changed and not seen.over:
            self._say(head_lines(seen)[1])
        if self._first and len(new) > _FIRST:
            self._say(f"{len(new) - _FIRST} records before these")
            new = new[-_FIRST:]
        self._first = False
        counted = _COUNTED.get(seen.unit, ())
        number = seen.done - sum(isinstance(record, counted) for record in new)
        of = f"/{seen.planned}" if seen.planned else ""
        for record in new:
            known = isinstance(record, counted)
            number += known
            # What is measured again is no further one.
            count = f"[{max(1, number)}{of}] " if known else ""
            self._say(count + record_line(record))
        for note in seen.notes:
            if note not in self._torn:
                self._say(note)
        self._torn = seen.notes
        if changed and seen.over:
            self._say(head_lines(seen)[1])
            self._end(seen)

    def _end(self, seen: Seen) -> None:
        said = (in_flight_line(seen), outside_line(seen), slowest_line(seen.slowest))
        for line in (progress_line(seen, 0), *said):
            if line:
                self._say(line)
        for line in filter(None, seen.tables):
            self._say(line)

    def _say(self, text: str) -> None:
        print(plain(cut(text, _MOST_LETTERS)), file=self._stdout, flush=True)

    def close(self) -> None:
        """Nothing to do."""


class LiveShown:
    """On a terminal: all of it, drawn again at every look; the last state stays when it ends."""

    def __init__(self, stdout: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stdout = stdout
        self._live = Live(
            console=Console(file=stdout), auto_refresh=False, redirect_stdout=False,
            redirect_stderr=False, vertical_overflow="crop",
        )  # fmt: skip
        self._live.start()

    def show(self, seen: Seen) -> None:
        """As much as the terminal holds, which may have changed its size."""
        from rich.text import Text

        width, height = shutil.get_terminal_size()
        lines = watch_lines(seen, max(20, width), max(1, height - 12))
        if not seen.over:
            lines.append("Ctrl-C ends the watching; the run goes on")
        text = Text("\n".join(lines), no_wrap=True, overflow="crop")
        self._live.update(text, refresh=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._live.stop()


def _width(stdout: TextIO) -> int:
    """Columns; what reads a pipe has no edge where a line would have to be cut."""
    return max(20, shutil.get_terminal_size().columns) if stdout.isatty() else 10_000
