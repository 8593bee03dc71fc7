"""``clusterlab exec``: start a command bound to its GPU, cores and NIC, its output tagged.

``main`` comes here before it imports typer and the other commands: every rank waits for this start. So the
options are read here by hand, from one table that the help text is made of too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterlab.core.errors import UsageError

if TYPE_CHECKING:
    import typer

    from clusterlab.binding.exec.plan import Wanted

_PARTS = ("gpu", "cpu", "nic")
_TAGS = ("both", "stdout", "stderr", "none")

OPTIONS = (
    (
        "--bind LIST",
        "What to bind, of gpu, cpu and nic with commas between, or\n"
        "none. [default: cpu]\n"
        "gpu: the mask (CUDA_VISIBLE_DEVICES; HIP_VISIBLE_DEVICES on\n"
        "  AMD) leaves this rank its GPU alone. Not for programs that\n"
        "  take the device of their local rank.\n"
        "cpu: this rank's share of the cores in its GPU's NUMA domain,\n"
        "  and OMP_NUM_THREADS to match. Cores the launcher gave to it\n"
        "  alone stay.\n"
        "nic: NCCL_IB_HCA names the NIC nearest to the GPU (or the\n"
        "  local rank's in CLUSTERLAB_NICS, which binds them by\n"
        "  default). Without, NCCL chooses.\n"
        "What is set already stays.",
    ),
    ("--tag WHICH", "Streams to tag: both, stdout, stderr or none. [default: both]"),
    ("-v, --verbose", "Say on stderr what is set and why, then start."),
    ("--print", "Say what would be set and why; start nothing."),
    ("--json", "With --print: JSON."),
    ("-h, --help", "Show this message and exit."),
)

_EXAMPLES = """Examples:

  srun --mpi=pmix --ntasks-per-node=8 --gpus-per-node=8 \\
      clusterlab exec -- python train.py

  srun … clusterlab exec --bind gpu,cpu,nic -v -- ./app

  srun … clusterlab exec --bind gpu,cpu,nic --print

Each line of output: [rank 3 n0 gpu 0000:4b:00.0] …  (gpu? where it is not
certain). Exit code and signals are the command's: 128+n for signal n, 127 when
it is not found, 126 when it cannot be started; 2 for a request that cannot be
understood, or --bind gpu where the GPUs seen leave none for this rank. Where no
GPU is seen at all, the command starts, and stderr says: not bound.
"""

_SUMMARY = "Start a command bound to its GPU, cores and NIC; tag its output lines."


class ExecOptions(NamedTuple):
    """What was typed."""

    wanted: Wanted
    command: tuple[str, ...]
    tag: str = "both"
    verbose: bool = False
    show: bool = False
    as_json: bool = False
    help: bool = False


def run(words: Sequence[str]) -> int:
    """``clusterlab exec WORDS``: the exit code. Raises UsageError."""
    options = parse(words)
    if options.help:
        sys.stdout.write(help_text())
        return 0
    if options.show:
        return _print(options)
    from clusterlab.binding.exec.start import start

    return start(options.command, options.wanted, tag=options.tag, verbose=options.verbose)


def parse(words: Sequence[str]) -> ExecOptions:
    """Read the words: options up to ``--`` or the first that is none. Raises UsageError."""
    found: dict[str, Any] = {}
    bind: frozenset[str] | None = None
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, given, value = word.partition("=")
        match name:
            case "--bind":
                bind = _parts(value if given else _argument(name, rest))
            case "--tag":
                found["tag"] = _one_of(name, value if given else _argument(name, rest), _TAGS)
            case "-v" | "--verbose" | "--print" | "--json" | "-h" | "--help" if not given:
                found[_FLAGS[name]] = True
            case _:
                raise _unknown(word)
    from clusterlab.binding.exec.plan import Wanted, by_default

    wanted = by_default(os.environ) if bind is None else Wanted(bind, asked=True)
    options = ExecOptions(wanted, tuple(rest), **found)
    if not (options.command or options.show or options.help):
        raise UsageError(
            "no command", where="exec", expected="clusterlab exec [OPTIONS] -- COMMAND"
        )
    if options.as_json and not options.show:
        raise UsageError("--json without --print", where="exec", expected="both")
    return options


_FLAGS = {
    "-v": "verbose",
    "--verbose": "verbose",
    "--print": "show",
    "--json": "as_json",
    "-h": "help",
    "--help": "help",
}


def _argument(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError("no value", where=name)
    return rest.pop(0)


def _parts(text: str) -> frozenset[str]:
    if text == "none":
        return frozenset()
    return frozenset(_one_of("--bind", part.strip(), _PARTS) for part in text.split(","))


def _one_of(name: str, word: str, known: Sequence[str]) -> str:
    if word in known:
        return word
    from clusterlab.core.suggest import unknown

    raise unknown("word", word, known, where=name)


def _unknown(word: str) -> UsageError:
    from clusterlab.core.suggest import unknown

    known = [name.strip().split()[0] for spelling, _ in OPTIONS for name in spelling.split(",")]
    return unknown("option", word, known, where="exec")


def _print(options: ExecOptions) -> int:
    from clusterlab.binding.exec.plan import make_plan

    plan = make_plan(os.environ, options.wanted)
    if options.as_json:
        from clusterlab.core.jsontext import json_text

        text = json_text(plan.to_json())
    else:
        missing = [f"# not bound: {what}" for what in plan.unfulfilled]
        text = "\n".join([f"# {plan.tag}", *plan.lines(), *missing])
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    return 0


def help_text() -> str:
    """The help, in the form of the other commands'."""
    lines = [
        "Usage: clusterlab exec [OPTIONS] -- COMMAND [ARG]...",
        "",
        f"  {_SUMMARY}",
        "",
        "Options:",
    ]
    for spelling, text in OPTIONS:
        first, *more = text.split("\n")
        lines.append(f"  {spelling:<14} {first}")
        lines += [f"  {'':<14} {line}" for line in more]
    return "\n".join(lines) + "\n\n" + _EXAMPLES


def register(root: typer.Typer) -> None:
    """List the command among the others; its own words are read by ``run``."""
    import typer

    def listed(words: list[str] = typer.Argument(None, metavar="COMMAND")) -> int:  # noqa: B008
        return run(words)

    root.command(
        "exec",
        help=_SUMMARY,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(listed)
