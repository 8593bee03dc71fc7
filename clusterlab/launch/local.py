"""Ranks on this machine: torch is imported once, then one process is forked per rank.

Importing torch takes seconds; forking takes milliseconds. So 8 ranks start on 2 cores in about the
time of one.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from clusterlab.core.errors import UsageError
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local_outcome import LocalOutcome, RankExit, judge, rank_exit
from clusterlab.launch.local_output import TaggedOutput
from clusterlab.launch.local_rank import LOOPBACK, RankMain, become_rank

MAX_LOCAL_RANKS = 1024
"""More ranks than this on one machine is a typo."""

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_local_ranks(
    world_size: int,
    rank_main: RankMain,
    *,
    log_dir: Path | None = None,
    grace_s: float = 3.0,
    relay: tuple[signal.Signals, ...] = (),
) -> LocalOutcome:
    """Run ``rank_main`` as ``world_size`` ranks on this machine and wait for all of them.

    Each rank gets its RankIdentity and a function that opens the job's store. Rank 0 keeps stdout and
    stderr; every line of the others goes to ``log_dir``/rank-N.log (or to stderr), tagged with its rank.

    When a rank dies or fails, the others get ``grace_s`` seconds to finish, then SIGTERM, then after
    another ``grace_s`` SIGKILL. SIGINT, SIGTERM and SIGHUP to this process do the same without the
    first wait; a second one kills at once. No rank outlives this process. What happened is in the
    outcome; nothing is raised for it. Signals of ``relay`` are passed on to all ranks, which ignore them
    until they say otherwise.

    Call it from the main thread, with no other Python thread running (forking beside one can
    deadlock the child) and without having used CUDA (a forked process cannot use it again).
    """
    if not 1 <= world_size <= MAX_LOCAL_RANKS:
        raise UsageError(
            f"{world_size} local ranks", where="ranks", expected=f"1 to {MAX_LOCAL_RANKS}"
        )
    if threading.active_count() > 1:
        raise RuntimeError(f"cannot fork beside running threads: {threading.enumerate()}")
    _import_torch()
    job = _Job(grace_s, relay)
    with job.handling_signals():
        _start(job, world_size, rank_main, log_dir)
        job.wait()
    return judge(job.exits, interrupted_by=job.interrupted_by)


def _import_torch() -> None:
    """Import torch with its and numpy's thread pools at one thread: this process is about to fork."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    for name in names:
        os.environ.setdefault(name, "1")
    try:
        import torch.distributed  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


@dataclass(slots=True)
class _Rank:
    """The launcher's end of one running rank."""

    rank: int
    pid: int
    report_fd: int
    output: TaggedOutput | None


@dataclass(slots=True)
class _Job:
    """The ranks that still run, how the others ended, and how far stopping them has gone."""

    grace_s: float
    relay: tuple[signal.Signals, ...]
    running: dict[int, _Rank] = field(default_factory=dict)  # by pid
    exits: list[RankExit] = field(default_factory=list)
    interrupted_by: int | None = None
    stopping_since: float | None = None  # a rank failed, or a signal came
    terminated_at: float | None = None  # SIGTERM was sent
    killed: bool = False
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    @contextmanager
    def handling_signals(self) -> Iterator[None]:
        """SIGINT, SIGTERM and SIGHUP stop the ranks instead of this process, while the block runs."""
        # A write to this pipe by the signal machinery ends select() at once.
        wake_r, wake_w = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        old_wakeup = signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        # What the caller ignores stays ignored: SIGHUP under nohup, SIGINT behind a shell's `&`.
        heeded = [n for n in _STOP_SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]
        old = {number: signal.signal(number, self.on_signal) for number in heeded}
        old |= {number: signal.signal(number, self.on_relayed) for number in self.relay}
        self.selector.register(wake_r, selectors.EVENT_READ, lambda: os.read(wake_r, 512))
        try:
            yield
        finally:
            self.kill()
            for pid in self.running:
                os.waitpid(pid, 0)
            for number, handler in old.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(old_wakeup)
            self.selector.close()
            os.close(wake_r)
            os.close(wake_w)

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """First signal: ask the ranks to stop. Second: kill them."""
        again = self.interrupted_by is not None
        self.interrupted_by = self.interrupted_by or number
        self.stopping_since = self.stopping_since or time.monotonic()
        if again:
            self.kill()
        else:
            self.terminate()

    def on_relayed(self, number: int, _frame: FrameType | None) -> None:
        """For the ranks, not for this process."""
        self.send(number)

    def terminate(self) -> None:
        self.terminated_at = time.monotonic()
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        self.killed = True
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        for pid in self.running:  # not reaped yet, so the pid is still ours
            os.kill(pid, number)

    def watch(self, rank: _Rank) -> None:
        """Reap ``rank`` when it ends and pass on its output until then."""
        self.running[rank.pid] = rank
        ended = os.pidfd_open(rank.pid)
        self.selector.register(ended, selectors.EVENT_READ, lambda: self.reap(rank, ended))
        if rank.output is not None:
            self.selector.register(
                rank.output.fd, selectors.EVENT_READ, lambda: self.pass_on_output(rank)
            )

    def pass_on_output(self, rank: _Rank) -> None:
        if rank.output is not None and not rank.output.pump():
            self.selector.unregister(rank.output.fd)  # the rank closed its end

    def reap(self, rank: _Rank, ended: int) -> None:
        # In this order: the signal handler must not find a pid that is no longer ours.
        del self.running[rank.pid]
        _, status = os.waitpid(rank.pid, 0)
        self.selector.unregister(ended)
        os.close(ended)
        if rank.output is not None:
            if rank.output.fd in self.selector.get_map():
                self.selector.unregister(rank.output.fd)
            rank.output.close()
        result = rank_exit(
            rank.rank,
            rank.pid,
            status,
            report=_read_report(rank.report_fd),
            stopped=self.terminated_at is not None,
            log=rank.output.log if rank.output is not None else None,
        )
        self.exits.append(result)
        if result.failed and self.stopping_since is None:
            self.stopping_since = time.monotonic()

    def wait(self) -> None:
        """Serve the ranks' output and ends until none is left."""
        while self.running:
            for key, _ in self.selector.select(self.next_step_s()):
                key.data()
            self.escalate()

    def next_step_s(self) -> float | None:
        """Seconds until stopping goes a step further; None: only an event moves things on."""
        since = self.terminated_at or self.stopping_since
        if since is None or self.killed:
            return None
        return max(0.0, since + self.grace_s - time.monotonic())

    def escalate(self) -> None:
        if self.next_step_s() == 0.0:
            if self.terminated_at is None:
                self.terminate()
            else:
                self.kill()


def _start(job: _Job, world_size: int, rank_main: RankMain, log_dir: Path | None) -> None:
    """Fork the ranks. Signals wait until all are started and watched."""
    sys.stdout.flush()
    sys.stderr.flush()
    host = socket.gethostname()
    with socket.create_server((LOOPBACK, 0), backlog=world_size + 8) as listening:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (*_STOP_SIGNALS, *job.relay))
        try:
            for rank in range(world_size):
                identity = RankIdentity(rank, world_size, rank, world_size, 0, host, "local")
                job.watch(_fork(identity, rank_main, listening, log_dir, job.relay))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork(
    identity: RankIdentity,
    rank_main: RankMain,
    listening: socket.socket,
    log_dir: Path | None,
    relay: tuple[signal.Signals, ...],
) -> _Rank:
    parent_pid = os.getpid()
    output = TaggedOutput.open(identity.rank, log_dir) if identity.rank else None
    report_r, report_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(report_r)
        become_rank(
            identity,
            rank_main,
            parent_pid=parent_pid,
            listening=listening,
            report_fd=report_w,
            output_fd=output.child_fd if output else None,
            ignored=relay,
        )
    os.close(report_w)
    if output is not None:
        output.close_child_end()
    return _Rank(identity.rank, pid, report_r, output)


def _read_report(report_fd: int) -> bytes:
    """What an ended rank reported, if anything. A report fits the pipe's buffer, so it is whole."""
    os.set_blocking(report_fd, False)
    try:
        return os.read(report_fd, 65536)
    except BlockingIOError:  # a child of the rank still holds the pipe
        return b""
    finally:
        os.close(report_fd)
