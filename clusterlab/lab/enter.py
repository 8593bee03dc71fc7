"""Run one command inside a lab: join its namespaces, pass signals on, give back its exit status.

A script of its own (`python -I -S enter.py REQUEST COMMAND…`), importing nothing but the standard
library: joining a mount or user namespace needs a process with one thread. REQUEST is JSON:
``pid`` and ``start`` of a process in the namespaces (``pid`` 0: stay here), ``user`` whether it has a
user namespace of its own, ``cwd``, and ``host`` for messages.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys

# linux/sched.h
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUTS = 0x04000000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000

_FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}


def _fail(message: str, status: int) -> int:
    print(f"clusterlab: {message}", file=sys.stderr, flush=True)
    return status


def _join(pid: int, start: str, user: bool) -> str | None:
    """Join the namespaces of ``pid``; an error text where that failed."""
    try:
        descriptor = os.pidfd_open(pid)
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:  # noqa: PTH123
            same = stat.read().rpartition(")")[2].split()[19] == start
    except (FileNotFoundError, ProcessLookupError):
        same = False
    except OSError as error:
        return f"pidfd_open: {error.strerror} (Linux 5.8 or newer is needed)"
    if not same:
        return "it is gone"
    flags = _CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWPID | _CLONE_NEWNET
    if user:
        flags |= _CLONE_NEWUSER
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, flags) != 0:
        return os.strerror(ctypes.get_errno())
    os.close(descriptor)
    return None


def _start(command: list[str], mask: set[signal.Signals | int], cwd: str, host: str) -> int:
    """Fork; the child is in the pid namespace that was joined and becomes ``command``."""
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(cwd)
    except OSError as error:
        _fail(f"{cwd}: {error.strerror} on {host}; running in /", 0)
        os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        os._exit(_fail(f"{command[0]}: command not found on {host}", 127))
    except OSError as error:
        os._exit(_fail(f"{command[0]}: {error.strerror}", 126))


def _supervise(child: int) -> int:
    """Wait for ``child``, handing on signals; its exit status, 128+n where signal n ended it."""
    while True:
        got = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        if got.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif got.si_code <= 0:
            # Sent by a process. A terminal's own (Ctrl-C, hang-up: si_code above 0) has reached the
            # child as well, being in the same foreground group.
            os.kill(child, got.si_signo)


def main(arguments: list[str]) -> int:
    """Run the command; the exit status for this process."""
    request = json.loads(arguments[0])
    if request["pid"]:
        error = _join(request["pid"], request["start"], request["user"])
        if error:
            return _fail(f"cannot enter {request['host']}: {error}", 4)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    return _supervise(_start(arguments[1:], mask, request["cwd"], request["host"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
