"""The ``clusterlab`` command: one sub-command per file, one place that turns errors into exit codes."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

from clusterlab.core.errors import ClusterlabError, ExitCode

_LONGEST = 4000
"""Characters of an error: more comes of a name or a value that was never meant to be read."""


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - pathlib costs 10 ms of exec's start


def _replace_closed_streams() -> None:
    """Started with `>&-`, Python has no stdout at all: then what is printed goes nowhere."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _print_whatever_the_terminal_knows() -> None:
    """A locale without "…" shows it as an escape: no text of ours may end in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code (core.errors.ExitCode, or 128+n)."""
    _replace_closed_streams()
    _print_whatever_the_terminal_knows()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except ClusterlabError as error:
        if not error.said:
            print(f"clusterlab: {_inert(str(error))}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:  # `clusterlab … | head`: the reader has what it wanted
        sys.stderr.close()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):  # whatever was to be read or written
            print(f"clusterlab: {_inert(f'{error.filename}')}: {error.strerror}", file=sys.stderr)
            return ExitCode.USAGE
        if error.filename is not None:
            raise
        # Ours are caught where they happen: this is stdout, redirected to a full disk.
        sys.stdout = _nowhere()
        print(f"clusterlab: output lost: {error.strerror}", file=sys.stderr)
        return ExitCode.FINDING
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return code


def _inert(text: str) -> str:
    """What was typed, or stands in a file, comes back in errors: it acts on no terminal and fills none."""
    from clusterlab.cli.shown import shown

    return shown(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _run(words: list[str]) -> int:
    """``exec`` starts every rank of a job: it does not wait for typer and the other commands."""
    if words[:1] == ["exec"]:
        from clusterlab.cli.exec import run as run_exec

        return run_exec(words[1:])
    from clusterlab.cli.app import run

    return run(words)
