"""Running the plans of mounts.py and network.py, and finding programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterlab.core.errors import ClusterlabError
from clusterlab.lab.processes import DAEMON_PATH


def search_path(environ: Mapping[str, str]) -> str:
    """PATH with the system's sbin directories, where daemons and `ip` lie, behind the user's own."""
    own = environ.get("PATH", "").split(":")
    return ":".join(dict.fromkeys(part for part in (*own, *DAEMON_PATH.split(":")) if part))


def which(program: str) -> str | None:
    """The path of ``program``, in sbin directories too."""
    return shutil.which(program, path=search_path(os.environ))


def run_commands(commands: Sequence[Sequence[str]]) -> None:
    """Run each in order. Raises ClusterlabError with what the first failing one said."""
    for command in commands:
        _run(command, None)


def run_ip(lines: Sequence[str], *, pid: int | None = None) -> None:
    """Run the lines by one `ip -batch`, in the network namespace of ``pid`` if given.

    Raises ClusterlabError with what it said.
    """
    _batch("ip", lines, pid)


def run_tc(lines: Sequence[str], *, pid: int) -> None:
    """The same for `tc -batch`."""
    _batch("tc", lines, pid)


def in_network_of(pid: int, command: Sequence[str]) -> list[str]:
    """``command`` in the network namespace of process ``pid``."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *command]


def _batch(program: str, lines: Sequence[str], pid: int | None) -> None:
    if lines:
        command = [program, "-batch", "-"]
        _run(command if pid is None else in_network_of(pid, command), "\n".join(lines) + "\n")


def _run(command: Sequence[str], text: str | None) -> None:
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterlabError(
            f"status {result.returncode}: {result.stderr.strip()}",
            where=" ".join(command) if text is None else f"{' '.join(command)} < {text!r}",
        )


def python_module(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules. -S: nothing of site-packages is needed, or loaded."""
    return [sys.executable, "-S", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment in which ``python_module`` finds this package, and no more than that."""
    root = Path(__file__).resolve().parent.parent.parent
    return {
        "PATH": search_path(os.environ),
        "PYTHONPATH": str(root),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
    }
