"""How local ranks ended, and what that means for the job."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterlab.core.errors import ExitCode


@dataclass(frozen=True, slots=True)
class RankExit:
    """How one rank ended: ``exit_code``, or the ``signal`` that ended it.

    ``error`` is what the rank said, ``error_time_ns`` when (the host's monotonic clock). ``log`` is where
    its output went.
    ``stopped``: the launcher had asked it to stop before it ended.
    """

    rank: int
    pid: int
    exit_code: int | None
    signal: int | None
    stopped: bool
    error: str | None = None
    error_time_ns: int | None = None
    log: Path | None = None

    @property
    def failed(self) -> bool:
        """It ended by a signal or with a code other than 0."""
        return self.exit_code != 0

    @property
    def ended_by(self) -> int | None:
        """The signal that ended it, also when it heeded SIGTERM and left with 143 by itself."""
        return signal.SIGTERM if self.exit_code == 128 + signal.SIGTERM else self.signal

    def __str__(self) -> str:
        who = f"rank {self.rank} (pid {self.pid})"
        if self.ended_by is not None:
            return f"{who} was ended by signal {self.ended_by} ({signal_name(self.ended_by)})"
        if self.error is not None:
            return f"{who} failed: {self.error}"
        late = " (a deadline passed)" if self.exit_code == ExitCode.DEADLINE else ""
        log = f"; see {self.log}" if self.log is not None else ""
        return f"{who} ended with exit code {self.exit_code}{late}{log}"


@dataclass(frozen=True, slots=True)
class LocalOutcome:
    """How a local job ended.

    ``culprit`` is the rank whose end ended the job. ``exit_code`` follows core.errors: 128+n when
    signal n interrupted the launcher, 4 when a rank was ended by a signal, otherwise the culprit's own.
    ``message`` is one line for people; None when all is well.
    """

    ranks: tuple[RankExit, ...]
    exit_code: int
    culprit: RankExit | None
    message: str | None


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals have no name and give their number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def rank_exit(
    rank: int, pid: int, status: int, *, report: bytes, stopped: bool, log: Path | None
) -> RankExit:
    """The RankExit for a status from ``waitpid`` and what the rank reported."""
    code = os.waitstatus_to_exitcode(status)
    said = json.loads(report) if report else {}
    return RankExit(
        rank=rank,
        pid=pid,
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        stopped=stopped,
        error=said.get("error"),
        error_time_ns=said.get("time_ns"),
        log=log,
    )


def judge(exits: Sequence[RankExit], *, interrupted_by: int | None) -> LocalOutcome:
    """The outcome of a job from its ranks' ends, given in the order they happened."""
    ranks = tuple(sorted(exits, key=lambda e: e.rank))
    if interrupted_by is not None:
        message = f"interrupted by {signal_name(interrupted_by)}; all {len(ranks)} ranks have ended"
        return LocalOutcome(ranks, 128 + interrupted_by, None, message)
    culprit = _culprit(exits)
    if culprit is None:
        return LocalOutcome(ranks, ExitCode.OK, None, None)
    others = "; the other ranks were stopped" if any(e.stopped for e in exits) else ""
    code: int = ExitCode.DEADLINE
    if culprit.exit_code is not None and culprit.ended_by is None:
        code = culprit.exit_code
    return LocalOutcome(ranks, code, culprit, f"{culprit}{others}")


def _culprit(exits: Sequence[RankExit]) -> RankExit | None:
    """Whose end ended the job.

    A rank that a signal ended comes first: the errors of the others (connection closed) follow from
    it, whatever the order in which they were seen. Then the earliest error; then the first to end.
    """
    failed = [e for e in exits if e.failed and not e.stopped] or [e for e in exits if e.failed]
    by_signal = [e for e in failed if e.ended_by is not None and not e.stopped]
    if by_signal:
        return by_signal[0]
    said = [e for e in failed if e.error_time_ns is not None]
    if said:
        return min(said, key=lambda e: e.error_time_ns or 0)
    return failed[0] if failed else None
