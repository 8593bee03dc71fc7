"""The commands that typer reads: one file per command, gathered here."""

from __future__ import annotations

import functools
import re
import signal
from collections.abc import Sequence
from typing import Any

import typer

from clusterlab import __version__
from clusterlab.cli import (
    baseline,
    bench,
    bind,
    bringup,
    calibrate,
    compare,
    doctor,
    exec,
    explain,
    export,
    hunt,
    import_,
    jobs,
    lab,
    localise,
    overlap,
    p2p,
    place,
    predict,
    report,
    resume,
    runs,
    selfcal,
    serve,
    soak,
    submit,
    topo,
    train,
    watch,
    why,
)
from clusterlab.core.errors import ExitCode, UsageError

# typer carries a click of its own; of its usage errors only BadParameter has a public name.
_CliError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)
_PROGRAM = "clusterlab"
_WORDS = (
    (r"Input should be greater than or equal to (\S+)", r"expected at least \1"),
    (r"Input should be less than or equal to (\S+)", r"expected at most \1"),
    (r"Input should be greater than (\S+)", r"expected more than \1"),
    (r"Input should be less than (\S+)", r"expected less than \1"),
    (r"Input should be a valid integer\b.*", "expected a whole number"),
    (r"Input should be a valid number\b.*", "expected a number"),
    (r"Input should be", "expected"),
)
"""typer checks values with pydantic, whose sentences speak of an input that nobody sees."""

app = typer.Typer(
    name=_PROGRAM,
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


for _module in (
    baseline,
    bench,
    bringup,
    calibrate,
    compare,
    doctor,
    exec,
    explain,
    export,
    hunt,
    import_,
    localise,
    overlap,
    p2p,
    place,
    predict,
    report,
    jobs,
    resume,
    runs,
    selfcal,
    serve,
    soak,
    submit,
    topo,
    train,
    watch,
    why,
):
    _module.register(app)
app.add_typer(bind.app, name="bind")
app.add_typer(lab.app, name="lab")


@functools.cache
def _tree() -> Any:
    """All commands: typer takes 75 ms to make them of the functions' signatures."""
    return typer.main.get_command(app)


def run(words: Sequence[str]) -> int:
    """Run one command; the exit code. Raises UsageError for words that it does not take."""
    try:
        result = _tree().main(args=list(words), prog_name=_PROGRAM, standalone_mode=False)
    except _CliError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group alone: its help is the message
            error.show()  # type: ignore[attr-defined]
            return ExitCode.USAGE
        raise _usage_error(error, words) from None
    except typer.Abort:
        return 128 + signal.SIGINT
    return result if isinstance(result, int) else ExitCode.OK


def _usage_error(error: Exception, words: Sequence[str]) -> UsageError:
    """typer's in one line as ours are: which command, what is wrong, where its options stand."""
    text = " ".join(str(error.format_message()).split()).rstrip(".")  # type: ignore[attr-defined]
    for theirs, ours in _WORDS:
        text = re.sub(theirs, ours, text)
    context = getattr(error, "ctx", None)
    path = _named(words) if context is None else context.command_path
    return UsageError(
        text[:1].lower() + text[1:],
        where=path.removeprefix(_PROGRAM).strip() or None,
        fix=f"see `{path} -h`",
    )


def _named(words: Sequence[str]) -> str:
    """The command that ``words`` begin with: click's parser drops it where an option lacks its value."""
    path, command = _PROGRAM, _tree()
    for word in words:
        below = getattr(command, "commands", {}).get(word)
        if below is None:
            break
        path, command = f"{path} {word}", below
    return path
