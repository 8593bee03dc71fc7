"""Whether somebody still measures in a run, for who only looks on: by run.json, alive.json and what grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clusterlab.core.errors import ExitCode
from clusterlab.records.lease import DEAD_S, LEAVES_S, Sign, sign_of_life
from clusterlab.records.run_dir import RunDir
from clusterlab.report.console.watching import State

START_S = 600.0
"""So long a run directory may be without an attempt: a batch script makes it before ranks start, and they
wait for each other some minutes at most (``launch.rendezvous``).
"""

_MEANING = {
    ExitCode.OK: "fine",
    ExitCode.FINDING: "a finding, a regression or wrong data",
    ExitCode.USAGE: "bad input",
    ExitCode.NO_VERDICT: "no verdict",
    ExitCode.DEADLINE: "a deadline passed, or a rank or node died",
}


def meaning(code: int) -> str:
    """What an exit code says."""
    if code > 128:
        return f"stopped by signal {code - 128}"
    try:
        return _MEANING[ExitCode(code)]
    except ValueError:
        return "not known"


class Pulse:
    """Looks again and again. ``once``: there is no second look, so the age of what is there must tell."""

    def __init__(
        self,
        folder: Path,
        *,
        once: bool = False,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._once = folder, once
        self._clock, self._now = clock, now
        self._touched: float | None = None
        self._attempt = 0
        self._missing_since: float | None = None
        self._since = self._began = clock()

    def grown(self) -> None:
        """Something was appended: that is a sign of life too."""
        self._since = self._clock()

    def feel(self, run: RunDir, created_s: float) -> tuple[State, str]:
        """The state of ``run``, whose directory is ``created_s`` old, and a sentence about it."""
        if not run.attempt:
            return self._unstarted(created_s)
        attempt = run.info.attempts[-1]
        if attempt.ended_utc is not None or attempt.exit_code is not None:
            code = attempt.exit_code
            how = "" if code is None else f" with exit code {code}: {meaning(code)}"
            return State.ENDED, f"attempt {attempt.number} ended{how}"
        if run.attempt != self._attempt:
            self._attempt = run.attempt
            self._since = self._clock()
        sign = sign_of_life(self._folder)
        if sign is None or sign.lives is False:
            return self._gone(sign, attempt.number)
        self._missing_since = None
        if sign.lives:
            return State.RUNNING, f"attempt {attempt.number} is running: {sign.who}"
        return self._elsewhere(sign, attempt.number)

    def _unstarted(self, created_s: float) -> tuple[State, str]:
        if created_s > START_S or self._clock() - self._began > START_S:
            return State.DEAD, "no attempt was started"
        return State.STARTING, "the ranks have not started yet"

    def _gone(self, sign: Sign | None, attempt: int) -> tuple[State, str]:
        """Who ends a run lets go of it before it says so: it is given a moment."""
        what = "nobody measures in it" if sign is None else f"{sign.who} is gone"
        if self._missing_since is None and not self._once:
            # A normal end looks so for a moment: the next look tells.
            self._missing_since = self._clock()
            if self._missing_since - self._since <= LEAVES_S:
                return State.RUNNING, f"attempt {attempt} is running"
        if self._once or self._clock() - self._since > LEAVES_S:
            return State.DEAD, f"attempt {attempt} is dead: it did not end, and {what}"
        return State.SILENT, f"attempt {attempt}: {what}"

    def _elsewhere(self, sign: Sign, attempt: int) -> tuple[State, str]:
        """Of another host's process only the file tells, by changes that we see: clocks differ."""
        if self._touched != sign.touched:
            known = self._touched is not None
            self._touched = sign.touched
            if known:
                self._since = self._clock()
        silent_s = self._now() - sign.touched if self._once else self._clock() - self._since
        if silent_s > DEAD_S:
            return State.DEAD, (
                f"attempt {attempt} is dead: no sign of life of {sign.who} for {silent_s:.0f} s"
            )
        if silent_s > DEAD_S / 2:
            return State.SILENT, (
                f"attempt {attempt}: no sign of life of {sign.who} for {silent_s:.0f} s"
            )
        return State.RUNNING, f"attempt {attempt} is running: {sign.who}"
