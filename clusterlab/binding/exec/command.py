"""Becoming a command, or starting it as a child whose output is tagged: same code, same signals.

The wrapper stays the process its launcher knows. What is sent to it alone it hands on; what was sent to
the whole group or job has reached the command already and is not sent a second time. It ends as the
command ended: with its exit code, or by its signal.
"""

# pathlib costs every rank 10 ms at its start.
# ruff: noqa: PTH110, PTH123
from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from clusterlab.binding.exec import pump

NOT_FOUND, NOT_STARTED = 127, 126
"""A shell's and env(1)'s codes for a command that is not there or cannot be started."""

_WITNESS_S = 0.2  # time a sender needs from one process of a job to the next, on a busy node
_GLANCE_S = 0.002
_ANSWER_MS = 500

# Stopping is the terminal's and the shell's own matter; faults are this process's own.
_NOT_RELAYED = frozenset(
    getattr(signal, name)
    for name in (
        *("SIGKILL", "SIGSTOP", "SIGTTIN", "SIGTTOU", "SIGCHLD", "SIGPIPE", "SIGXFSZ"),
        *("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"),
    )
)


def become(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Replace this process by ``command``; returns only its exit code when it cannot be started."""
    _restore_defaults()
    number = _exec(command, environ)
    return _not_started(command[0], number)


def run_tagged(
    command: Sequence[str], environ: Mapping[str, str], tag: str, streams: Sequence[int]
) -> int:
    """Run ``command``, tagging ``streams`` (1, 2): its exit code. Ended by a signal, so is this process."""
    open_streams = [stream for stream in streams if _is_open(stream)]
    _occupy_closed()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would take the exit code away
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pipes = {stream: os.pipe() for stream in open_streams}
    control, status = os.pipe(), os.pipe()
    pumping = os.fork()
    if pumping == 0:
        _be_pump(tag, pipes, control, status)
    failed = os.pipe()
    child = os.fork()
    if child == 0:
        _be_command(command, environ, pipes, failed[1], inherited)
    for read_end, write_end in (*pipes.values(), (control[0], status[1])):
        os.close(read_end)
        os.close(write_end)
    os.close(failed[1])
    number = os.read(failed[0], 4)  # ends when the command has replaced the child
    os.close(failed[0])
    _say(control[1], b"%d\n" % child)
    relay = _Relay(child, pumping, control[1], status[0])
    if number:
        os.waitpid(child, 0)
        relay.finish(len(pipes))
        return _not_started(command[0], int.from_bytes(number, "little"))
    _let_go_of_streams()
    code = os.waitstatus_to_exitcode(relay.until_the_end())
    relay.finish(len(pipes))
    return code if code >= 0 else _end_by(-code)


def _be_pump(
    tag: str,
    pipes: Mapping[int, tuple[int, int]],
    control: tuple[int, int],
    status: tuple[int, int],
) -> NoReturn:
    """Become the pump: keep only what it needs, so that every stream's end is seen by who waits for it."""
    os.close(control[1])
    os.close(status[0])
    streams = []
    for stream, (read_end, write_end) in pipes.items():
        os.close(write_end)
        target = os.dup(stream)
        streams.append((read_end, target))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, *(() if 2 in pipes else (2,))):
        os.dup2(nowhere, stream)
    pump.run_pump(tag.encode("utf-8", "surrogateescape"), streams, control[0], status[1])


def _be_command(
    command: Sequence[str],
    environ: Mapping[str, str],
    pipes: Mapping[int, tuple[int, int]],
    failed: int,
    mask: Collection[int],
) -> NoReturn:
    try:
        for stream, (_, write_end) in pipes.items():
            os.dup2(write_end, stream)
        _restore_defaults()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.write(failed, _exec(command, environ).to_bytes(4, "little"))
    finally:
        os._exit(NOT_STARTED)


def _exec(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """exec the command, found in PATH; returns the error's number."""
    if not command[0]:
        return errno.ENOENT
    try:
        os.execvpe(command[0], list(command), environ)
    except OSError as error:
        return error.errno or errno.EIO


def _not_started(name: str, number: int) -> int:
    missing = number in (errno.ENOENT, errno.ENOTDIR)
    why = os.strerror(number)
    if missing and "/" not in name:
        why = "no such command in PATH"
    elif missing and os.path.exists(name):
        why = "its interpreter (the path after #!) does not exist"
    elif number == errno.ENOEXEC:
        why = "neither a program nor a script that begins with #!"
    pump.complain(f"clusterlab exec: {name or repr(name)}: {why}")
    return NOT_FOUND if missing else NOT_STARTED


def _restore_defaults() -> None:
    """What Python ignores by itself a command expects to end it (SIGPIPE: `… | head`)."""
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)


def _say(control: int, word: bytes) -> bool:
    """Tell the pump; False when it is no more (killed)."""
    try:
        os.write(control, word)
    except BrokenPipeError:
        return False
    return True


def _is_open(fd: int) -> bool:
    """Whether the command will have stream ``fd``: a stand-in for a closed one is not inherited."""
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def _occupy_closed() -> None:
    """Started with `>&-`: no pipe may take that number. Closed again when the command starts."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)


def _let_go_of_streams() -> None:
    """Whoever reads the command's output, or feeds its input, sees the end when the command ends it."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


class _Relay:
    """Waits for the command and hands on the signals that reached this process alone.

    The pump blocks every signal, so one sent to the whole group or job is pending there: a witness.
    """

    def __init__(self, child: int, pumping: int, control: int, status: int) -> None:
        self._child, self._pump = child, pumping
        self._control, self._status = control, status
        self._told = b""
        self._wake, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self._handled = [
            number
            for number in signal.valid_signals() - _NOT_RELAYED
            if signal.getsignal(number) is not signal.SIG_IGN
        ]
        for number in (*self._handled, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def until_the_end(self) -> int:
        """The command's status as waitpid gives it."""
        while True:
            for number in os.read(self._wake, 64):
                if number != signal.SIGCHLD:
                    self._hand_on(number)
            pid, status = os.waitpid(self._child, os.WNOHANG)
            if pid:
                return status

    def finish(self, streams: int) -> None:
        """Wait until all that the command wrote is written; a signal now ends this process."""
        signal.set_wakeup_fd(-1)
        for number in self._handled:
            signal.signal(number, signal.SIG_DFL)
        _say(self._control, pump.ENDED)
        os.close(self._control)
        while self._count(pump.DRAINED) + self._count(pump.CLOSED) < streams:
            data = os.read(self._status, 64)
            if not data:
                break
            self._told += data
        if self._count(pump.CLOSED) == streams:
            os.waitpid(self._pump, 0)
        # Else something the command left behind still writes: the pump goes on until that ends.

    def _count(self, letter: bytes) -> int:
        return self._told.count(letter)

    def _hand_on(self, number: int) -> None:
        if not self._witnessed(number):
            try:
                os.kill(self._child, number)
            except ProcessLookupError:
                return
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _witnessed(self, number: int) -> bool:
        end = time.monotonic() + _WITNESS_S
        while not self._pending(number):
            if time.monotonic() > end:
                return False
            time.sleep(_GLANCE_S)
        self._clear()
        return True

    def _pending(self, number: int) -> bool:
        """Whether signal ``number`` waits at the pump; False too where /proc does not tell."""
        try:
            with open(f"/proc/{self._pump}/status", "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            return False
        masks = [int(line.split()[1], 16) for line in lines if line[:7] in (b"SigPnd:", b"ShdPnd:")]
        return any(mask >> (number - 1) & 1 for mask in masks)

    def _clear(self) -> None:
        """Have the pump forget what came, so that the next signal is seen anew."""
        if not _say(self._control, pump.CLEAR):
            return
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        before = self._count(pump.CLEARED)
        while self._count(pump.CLEARED) == before and poll.poll(_ANSWER_MS):
            data = os.read(self._status, 64)
            if not data:
                return
            self._told += data


def _end_by(number: int) -> int:
    """End by signal ``number`` like the command, so that a launcher sees no difference; else 128+n."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))  # the core that counts is the command's
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number  # process 1 of a container is immune
