"""How srun says on stderr that tasks ended (``srun: error: n1: tasks 2-3: Killed``) and nodes were lost."""

from __future__ import annotations

import re
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.formats.hostlist import expand_hostlist

_ENDED = re.compile(r"srun: error: ([^\s:]+): tasks? ([\d,-]+): (.+?)\s*$", re.MULTILINE)
_LOST = re.compile(r"srun: error: Node failure on (\S+)")
_EXITED = re.compile(r"Exited with exit code (\d+)")

# strsignal's words on Linux; "Out Of Memory" is Slurm's own, for what the kernel's OOM killer did.
_SIGNALS = {
    "Hangup": 1,
    "Interrupt": 2,
    "Quit": 3,
    "Illegal instruction": 4,
    "Trace/breakpoint trap": 5,
    "Aborted": 6,
    "Bus error": 7,
    "Floating point exception": 8,
    "Killed": 9,
    "Out Of Memory": 9,
    "User defined signal 1": 10,
    "Segmentation fault": 11,
    "User defined signal 2": 12,
    "Broken pipe": 13,
    "Terminated": 15,
}


@dataclass(frozen=True, slots=True)
class TasksEnded:
    """Tasks of one host that ended alike: by ``exit_code`` or by ``signal``; ``text`` is srun's word."""

    host: str
    ranks: tuple[int, ...]
    exit_code: int | None
    signal: int | None
    text: str


def parse_task_ends(text: str) -> list[TasksEnded]:
    """Every end that srun reports in ``text``, in its order; other lines are passed over."""
    return [_ended(*found.groups()) for found in _ENDED.finditer(text)]


def parse_lost_nodes(text: str) -> list[str]:
    """The nodes whose failure srun reports in ``text``."""
    return list(dict.fromkeys(_LOST.findall(text)))


def _ended(host: str, tasks: str, how: str) -> TasksEnded:
    exited = _EXITED.fullmatch(how)
    return TasksEnded(
        host=host,
        ranks=_ranks(tasks),
        exit_code=int(exited.group(1)) if exited else None,
        signal=None if exited else _SIGNALS.get(how.partition(" (core dumped)")[0]),
        text=how,
    )


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(r) for r in expand_hostlist(f"[{text}]"))
    except UsageError:  # a line cut in the middle of its ranges
        return ()
