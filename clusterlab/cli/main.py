"""The ``clusterlab`` command: one sub-command per file, one place that turns errors into exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import typer

from clusterlab import __version__
from clusterlab.cli import (
    bench,
    bind,
    doctor,
    jobs,
    lab,
    predict,
    report,
    resume,
    runs,
    selfcal,
    submit,
    topo,
)
from clusterlab.core.errors import ClusterlabError, ExitCode

# typer carries a click of its own; of its usage errors only BadParameter has a public name.
_CliError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

app = typer.Typer(
    name="clusterlab",
    help="Bring up, measure and debug multi-GPU clusters: every collective is predicted before it is "
    "measured, and both are kept side by side.",
    epilog="Example: clusterlab bench all_reduce -b 8 -e 1M -f 4",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        typer.echo(f"clusterlab {__version__}")
        raise typer.Exit


for _module in (bench, doctor, predict, report, jobs, resume, runs, selfcal, submit, topo):
    _module.register(app)
app.add_typer(bind.app, name="bind")
app.add_typer(lab.app, name="lab")


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _replace_closed_streams() -> None:
    """Started with `>&-`, Python has no stdout at all: then what is printed goes nowhere."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the exit code (core.errors.ExitCode, or 128+n)."""
    command = typer.main.get_command(app)
    _replace_closed_streams()
    try:
        result = command.main(
            args=list(sys.argv[1:] if argv is None else argv),
            prog_name="clusterlab",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except _CliError as error:
        error.show()  # type: ignore[attr-defined]
        return ExitCode.USAGE
    except ClusterlabError as error:
        if not error.said:
            print(f"clusterlab: {error}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:  # `clusterlab … | head`: the reader has what it wanted
        sys.stderr.close()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None:
            raise
        # Ours are caught where they happen: this is stdout, redirected to a full disk.
        sys.stdout = _nowhere()
        print(f"clusterlab: output lost: {error.strerror}", file=sys.stderr)
        return ExitCode.FINDING
    except (typer.Abort, KeyboardInterrupt):
        return 128 + signal.SIGINT
    return result if isinstance(result, int) else ExitCode.OK
