"""A line with srun, sbatch or salloc taken apart as getopt_long does it, options still as text.

Names, letters and arguments are those of Slurm's src/common/slurm_opt.c (22.05, and later additions).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import PurePath
from typing import Literal

from clusterlab.binding.explain.rejection import RejectedError
from clusterlab.core.errors import UsageError

COMMANDS = ("srun", "sbatch", "salloc")

# name, |letter, = takes an argument, ? may take one.
_EVERY = """bell contiguous debugger-test disable-status|X exact help|h hold|H ignore-pbs interactive label|l
multi-prog no-allocate|Z no-bell no-requeue no-shell overcommit|O oversubscribe|s parsable preserve-env|E
pty quiet|Q quit-on-interrupt reboot requeue spread-job test-only unbuffered|u usage use-min-nodes
verbose|v version|V whole wait-for-children external stepmgr
accel-bind= account|A= acctg-freq= array|a= batch= bb= bbf= bcast-exclude= begin|b= chdir|D=
cluster-constraint= clusters|M= comment= constraint|C= container= container-id= context= core-spec|S=
cores-per-socket= cpu-bind= cpu-freq= cpu_bind= cpus-per-gpu= cpus-per-task|c= deadline= delay-boot=
dependency|d= distribution|m= epilog= error|e= exclude|x= export= export-file= extra= extra-node-info|B=
gid= gpu-bind= gpu-freq= gpus-per-node= gpus-per-socket= gpus-per-task= gpus|G= gres= gres-flags=
het-group= hint= input|i= job-name|J= jobid= kill-on-invalid-dep= licenses|L= mail-type= mail-user=
mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= mpi= msg-timeout= network= nodefile|F=
nodelist|w= nodes|N= ntasks-per-core= ntasks-per-gpu= ntasks-per-node= ntasks-per-socket=
ntasks-per-tres= ntasks|n= open-mode= output|o= pack-group= partition|p= power= prefer= priority= profile=
prolog= qos|q= relative|r= reservation= segment= signal= slurmd-debug= sockets-per-node= switches=
task-epilog= task-prolog= tasks-per-node= thread-spec= threads-per-core= threads|T= time-min= time|t= tmp=
tree-width= tres-bind= tres-per-task= uid= wait-all-nodes= wait|W= wckey= wrap=
bcast? compress? exclusive? get-user-env? immediate|I? kill-on-bad-exit|K? nice? no-kill|k? overlap?
propagate? resv-ports? send-libs? x11?"""

_ONLY = {
    "srun": """accel-bind bcast bcast-exclude compress cpu-bind cpu_bind debugger-test disable-status
epilog exact external het-group interactive jobid kill-on-bad-exit label mpi msg-timeout multi-prog
no-allocate overlap pack-group preserve-env prolog pty quit-on-interrupt relative resv-ports send-libs
slurmd-debug task-epilog task-prolog threads tree-width tres-bind unbuffered wait-for-children whole""",
    "sbatch": """array batch export-file ignore-pbs kill-on-invalid-dep no-requeue parsable requeue wrap""",
    "salloc": "bell no-bell no-shell",
}

_ALIASES = {"tasks-per-node": "ntasks-per-node", "cpu_bind": "cpu-bind"}
_BETWEEN = ";&\n"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=", re.ASCII)
_OPTION = re.compile(r"([\w-]+)(?:\|(\w))?([=?]?)")

Kind = Literal["without", "with", "optional"]
_KINDS: dict[str, Kind] = {"": "without", "=": "with", "?": "optional"}


@cache
def _options_of(command: str) -> tuple[dict[str, Kind], dict[str, str]]:
    """(long name → what it takes, letter → long name) of the options ``command`` knows."""
    others = {name for other, text in _ONLY.items() if other != command for name in text.split()}
    found = [match.groups() for match in _OPTION.finditer(_EVERY)]
    mine = [(name, letter, mark) for name, letter, mark in found if name not in others]
    kinds = {name: _KINDS[mark] for name, _, mark in mine}
    if command == "sbatch":
        kinds["wait"] = "without"
    return kinds, {letter: name for name, letter, _ in mine if letter}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """``options``: (long name, value or None) in order. ``environ``: assignments before the command.

    ``background``: it ends with ``&``. ``waited``: a ``wait`` stands before it.
    """

    command: str
    options: tuple[tuple[str, str | None], ...]
    environ: Mapping[str, str]
    program: tuple[str, ...] = ()
    background: bool = False
    waited: bool = False


def read_command_lines(text: str, *, where: str) -> list[CommandLine]:
    """The command lines in ``text``, cut as a shell does at ``;``, ``&&``, ``&`` and line ends.

    An ``&`` before further options of the same command counts as if it stood at the command's end. A
    ``wait`` marks the line after it. Raises UsageError and RejectedError.
    """
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=_BETWEEN)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}", where=where, expected="a shell command") from None
    lines: list[CommandLine] = []
    waited = False
    for command, background in _cut(words):
        if command == ["wait"]:
            waited = True
            continue
        line = _read_words(command, where)
        lines.append(replace(line, background=background, waited=waited))
        waited = False
    if not lines:
        raise UsageError("no command", where=where, expected="a line with srun, sbatch or salloc")
    return lines


def _cut(words: list[str]) -> Iterator[tuple[list[str], bool]]:
    """The words of each command, and whether it runs in the background."""
    current: list[str] = []
    background = False
    for word, after in pairwise([*words, ";", ";"]):
        if not word or set(word) - set(_BETWEEN) or _redirects(word, current, after):
            current.append(word)
            continue
        alone = word.strip(";\n") == "&"
        background = background or (alone and bool(current))
        if word != "&" or _begins_command(after):
            if current:
                yield current, background
            current, background = [], False


def _redirects(word: str, before: list[str], after: str) -> bool:
    """Whether an ``&`` is part of ``2>&1`` or ``&>file``."""
    return word == "&" and (bool(before and before[-1].endswith(">")) or after.startswith(">"))


def _begins_command(word: str) -> bool:
    name = PurePath(word).name
    return name in (*COMMANDS, "wait") or word == ";" or bool(_ASSIGNMENT.match(word))


def _read_words(words: list[str], where: str) -> CommandLine:
    rest = list(words)
    environ: dict[str, str] = {}
    while rest and re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*=.*", rest[0], re.DOTALL):
        name, _, value = rest.pop(0).partition("=")
        environ[name] = value
    command = PurePath(rest[0]).name if rest else ""
    if command not in COMMANDS:
        raise UsageError(
            f"{' '.join(words)!r} does not begin with a command of Slurm",
            where=where,
            expected=f"one of {', '.join(COMMANDS)}, after assignments if any",
        )
    if ":" in rest:
        raise UsageError(
            f"a heterogeneous job: {rest.count(':') + 1} components with ':' between",
            where=where,
            expected="one component",
            fix="predict each on its own",
        )
    options, program = _read_options(command, rest[1:])
    return CommandLine(command, tuple(options), environ, tuple(program))


def _read_options(command: str, words: list[str]) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Options up to the first word that is none: what follows belongs to the program."""
    options: list[tuple[str, str | None]] = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            options.append(_long(command, word, rest))
        else:
            options += _short(command, word[1:], rest)
    return options, rest


def _long(command: str, word: str, rest: list[str]) -> tuple[str, str | None]:
    spelled, equals, value = word[2:].partition("=")
    kinds, _ = _options_of(command)
    matching = [spelled] if spelled in kinds else [n for n in kinds if n.startswith(spelled)]
    if not matching:
        raise RejectedError(f"{command}: unrecognized option '--{spelled}'")
    if len(matching) > 1:
        shown = " ".join(f"'--{name}'" for name in sorted(matching))
        raise RejectedError(f"{command}: option '--{spelled}' is ambiguous; possibilities: {shown}")
    name = matching[0]
    kind = kinds[name]
    if kind == "without" and equals:
        raise RejectedError(f"{command}: option '--{name}' doesn't allow an argument")
    if kind == "with" and not equals:
        if not rest:
            raise RejectedError(f"{command}: option '--{name}' requires an argument")
        value, equals = rest.pop(0), "="
    return _ALIASES.get(name, name), value if equals else None


def _short(command: str, letters: str, rest: list[str]) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    kinds, names = _options_of(command)
    while letters:
        letter, letters = letters[0], letters[1:]
        name = names.get(letter)
        if name is None:
            raise RejectedError(f"{command}: invalid option -- '{letter}'")
        kind = kinds[name]
        if kind == "without":
            found.append((name, None))
            continue
        if kind == "with" and not letters:
            if not rest:
                raise RejectedError(f"{command}: option requires an argument -- '{letter}'")
            letters = rest.pop(0)
        found.append((name, letters or None))
        break
    return found
