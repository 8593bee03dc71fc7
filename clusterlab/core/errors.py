"""Errors a user can act on, and the exit codes that go with them.

    ClusterlabError
    ├── UsageError        2  bad input: file, line or field; what was expected; how to fix it
    ├── StorageError      1  a run directory that can no longer be written (full disk, lost mount)
    ├── WrongDataError    1  a collective delivered wrong elements
    ├── NoVerdictError    3  nothing can be concluded, and why
    └── DeadlineError     4  a deadline passed, or a rank or node died

Every command catches ClusterlabError once, in ``cli.main``, prints ``str(error)`` on stderr and exits
with ``error.exit_code``. Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What every command's exit status means. 128+n: ended by signal n."""

    OK = 0
    FINDING = 1  # a finding of severity error or above, a regression, wrong data
    USAGE = 2  # usage or bad input
    NO_VERDICT = 3
    DEADLINE = 4  # a deadline passed, or a rank or node died


class ClusterlabError(Exception):
    """One clear message: ``where: message. Expected … Fix: …`` (absent parts are left out).

    ``where`` names the file, line or field at fault. ``said``: another process of the job has already
    printed it, so this one need not.
    """

    exit_code: int = ExitCode.USAGE
    said: bool = False

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.expected = expected
        self.fix = fix

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        if self.expected:
            text += f"; expected {self.expected}"
        if self.fix:
            text += f"; {self.fix}"
        return text


class UsageError(ClusterlabError):
    """Bad input."""

    exit_code = ExitCode.USAGE


class StorageError(ClusterlabError):
    """The run directory can no longer be written; what was written stays readable."""

    exit_code = ExitCode.FINDING


class WrongDataError(ClusterlabError):
    """A collective delivered wrong elements."""

    exit_code = ExitCode.FINDING


class NoVerdictError(ClusterlabError):
    """Nothing can be concluded from what there is."""

    exit_code = ExitCode.NO_VERDICT


class DeadlineError(ClusterlabError):
    """A deadline passed, or a rank or node died."""

    exit_code = ExitCode.DEADLINE
