"""A run that SIGTERM stops: what is noted of it, from wherever it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clusterlab.core.errors import ExitCode
from clusterlab.records.run_dir import open_run, start_attempt
from clusterlab.records.trouble import read_trouble, trouble_folder

TellEnd = Callable[[Path, int, str | None], int]
"""Tells the end of the run at a path, given the exit code and what ended it early; the final exit code."""


def finish_stopped(path: Path, tell_end: TellEnd) -> Callable[[int], int]:
    """An ``Ending``'s ``finish`` for the run at ``path``, made before this job's attempt begins.

    A job that is stopped before that gets its attempt, so that the end is on record, and that of a requeued
    job's last attempt stays. Where the ranks have found out that one of them is gone, the signal is what its
    launcher sent to the rest: exit code 4.
    """
    before = open_run(path).attempt

    def finish(code: int) -> int:
        run = open_run(path)
        if run.attempt == before:
            run = start_attempt(run)
        found = read_trouble(trouble_folder(run.path, run.attempt))
        if found is not None:
            return tell_end(run.path, ExitCode.DEADLINE, found.finding.evidence[0])
        return tell_end(run.path, code, "stopped by a signal")

    return finish
