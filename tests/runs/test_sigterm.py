"""SIGTERM to ranks that a launcher started: the run is finished wherever they are, and nobody hangs."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from clusterlab.records.documents import read_findings
from clusterlab.records.run_dir import create_run, open_run
from clusterlab.runs.ending import LATE_S, STOPPED
from tests.conftest import CLI, clean_environment

pytestmark = pytest.mark.ranks

SWEEP = ("bench", "all_reduce", "-w", "1", "-b", "1K", "-e", "4M", "-f", "2", "-n", "300")
LONG = {
    "bench": SWEEP,
    "overlap": ("overlap", "all_reduce,broadcast", "-b", "256K", "-e", "4M", "-n", "100"),
}
SLACK_S = 20.0
"""What a busy machine may need beyond LATE_S."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class Ranks:
    """Ranks as exported variables start them, their run directory made by the batch script."""

    run: Path
    cache: Path
    world_size: int = 2
    port: int = field(default_factory=free_port)
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, rank: int, words: Sequence[str]) -> None:
        size = str(self.world_size)
        env = clean_environment(
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=size, LOCAL_WORLD_SIZE=size,
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), OMP_NUM_THREADS="1",
            CLUSTERLAB_RUN_DIR=str(self.run), XDG_CACHE_HOME=str(self.cache),
        )  # fmt: skip
        self.processes[rank] = subprocess.Popen(
            [*CLI, *words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def signal(self, number: int, *ranks: int) -> None:
        for rank in ranks or self.processes:
            self.processes[rank].send_signal(number)

    def ends(self, *ranks: int) -> tuple[list[int], str]:
        """The exit codes, and all that was said on stderr."""
        end, said = time.monotonic() + 2 * LATE_S + SLACK_S, ""
        for rank in ranks or self.processes:
            said += self.processes[rank].communicate(timeout=max(0.1, end - time.monotonic()))[1]
        return [self.processes[rank].returncode for rank in ranks or self.processes], said

    def wait(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + 100
        while not done():
            assert time.monotonic() < end, [p.poll() for p in self.processes.values()]
            assert all(p.poll() is None for p in self.processes.values()), self.ends()
            time.sleep(0.05)

    def lines(self) -> int:
        return sum(f.read_bytes().count(b"\n") for f in self.run.glob("*.jsonl"))

    def code(self) -> int | None:
        """What run.json says of the only attempt."""
        (attempt,) = open_run(self.run).info.attempts
        assert (attempt.exit_code is None) == (attempt.ended_utc is None)
        return attempt.exit_code


@pytest.fixture
def ranks(tmp_path: Path, calibrated_cache: Path) -> Iterator[Ranks]:
    found = Ranks(create_run("stopped", root=tmp_path).path, calibrated_cache)
    yield found
    for process in found.processes.values():
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", LONG)
def test_stopped_ranks_leave_a_finished_run_with_its_rows(ranks: Ranks, kind: str) -> None:
    for rank in range(2):
        ranks.start(rank, LONG[kind])
    ranks.wait(lambda: ranks.lines() >= 3)
    ranks.signal(signal.SIGTERM)
    codes, said = ranks.ends()
    assert codes == [STOPPED, STOPPED], said
    assert ranks.code() == STOPPED
    assert "stopped by a signal" in said
    assert "Traceback" not in said
    assert ranks.lines() >= 3
    assert (ranks.run / "report.html").exists()
    assert not read_findings(ranks.run)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("kind", ["bench", "train"])
def test_a_rank_that_waits_for_one_that_never_comes_is_stopped(ranks: Ranks, kind: str) -> None:
    ranks.start(0, {**LONG, "train": ("train", "dp")}[kind])
    ranks.wait(lambda: listens(ranks.port))
    ranks.signal(signal.SIGTERM)
    codes, said = ranks.ends()
    assert codes == [STOPPED], said
    assert ranks.code() == STOPPED
    assert "Traceback" not in said


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_inside_a_collective_that_does_not_end_is_stopped(
    ranks: Ranks, stopped: int
) -> None:
    """gloo waits for a peer that is held up, where no Python handler is called."""
    for rank in range(2):
        ranks.start(rank, SWEEP)
    ranks.wait(lambda: ranks.lines() >= 3)
    ranks.signal(signal.SIGSTOP, stopped)
    time.sleep(1.0)  # the other one comes to where it waits
    ranks.signal(signal.SIGTERM)
    codes, said = ranks.ends(1 - stopped)
    assert codes == [STOPPED], said
    if stopped == 0:  # it goes on, and ends as if nothing had been
        ranks.signal(signal.SIGCONT, stopped)
        codes, more = ranks.ends(stopped)
        said += more
    assert ranks.code() == STOPPED, said
    assert ranks.lines() >= 3
    assert "Traceback" not in said


def test_a_dead_rank_stays_the_reason_when_the_others_are_stopped(ranks: Ranks) -> None:
    """As torchrun and Slurm do it: a rank dies, the rest gets SIGTERM."""
    for rank in range(2):
        ranks.start(rank, SWEEP)
    ranks.wait(lambda: ranks.lines() >= 3)
    ranks.signal(signal.SIGKILL, 1)
    ranks.processes[1].wait(10)
    time.sleep(0.05)
    ranks.signal(signal.SIGTERM, 0)
    (code,), said = ranks.ends(0)
    assert code == ranks.code() == 4, said
    (found,) = read_findings(ranks.run)
    assert (found.code, found.ranks) == ("RANK_DIED", (1,))


def test_torchrun_that_is_stopped_leaves_a_finished_run(
    tmp_path: Path, calibrated_cache: Path
) -> None:
    run = create_run("stopped", root=tmp_path).path
    process = subprocess.Popen(
        [CLI[0], "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         "-m", "clusterlab", *SWEEP],
        env=clean_environment(OMP_NUM_THREADS="1", CLUSTERLAB_RUN_DIR=str(run),
                              XDG_CACHE_HOME=str(calibrated_cache)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    mine = Ranks(run, calibrated_cache, processes={0: process})
    mine.wait(lambda: mine.lines() >= 3)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert mine.code() == STOPPED, said
    assert "stopped by a signal" in said
