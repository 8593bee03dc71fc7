"""Real gloo ranks in trouble: one that sleeps, is stopped or dies is named with its host, pid and stack."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_points
from clusterlab.bench.trouble import Silence, Trouble, finding_of
from clusterlab.bench.watchdog import Aftermath
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.measurement import Measurement
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_outcome import LocalOutcome
from clusterlab.launch.local_rank import OpenStore
from tests.bench.ranks import join

pytestmark = pytest.mark.ranks

WORLD = 3
POINTS = [make_point("all_reduce", 64 * (i + 1), DTYPES["float32"], WORLD) for i in range(4)]
HOST = socket.gethostname()


@dataclasses.dataclass
class Ended:
    outcome: LocalOutcome
    told: list[dict[str, object]]
    finding: dict[str, object]
    folder: Path
    rows: int
    seconds: float


def run(
    tmp_path: Path, break_it: Callable[[int, Point], None], *, deadline_s: float = 1.5
) -> Ended:
    """Measure POINTS; ``break_it`` is called on every rank after every point."""
    options = BenchOptions(iterations=1, warmup=0, deadline_s=deadline_s)

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        store = join(identity, open_store)

        def tell(trouble: Trouble) -> None:
            with (tmp_path / "told.jsonl").open("a") as file:
                file.write(json.dumps(trouble.to_json() | {"lines": trouble.lines()}) + "\n")
            (tmp_path / "finding.json").write_text(json.dumps(finding_of(trouble).to_json()))

        def keep(_point: Point, _measured: Measurement, _slowest: list[float]) -> None:
            with (tmp_path / "rows").open("a") as file:
                file.write("row\n")

        measure_points(
            identity,
            POINTS,
            options,
            keep,
            store=store,
            on_samples=lambda point, _own: break_it(identity.rank, point),
            aftermath=Aftermath(tmp_path / "trouble", tell),
        )
        return 0

    start = time.monotonic()
    outcome = run_local_ranks(WORLD, rank_main, log_dir=tmp_path / "logs")
    told = [json.loads(line) for line in (tmp_path / "told.jsonl").read_text().splitlines()]
    return Ended(
        outcome,
        told,
        json.loads((tmp_path / "finding.json").read_text()),
        tmp_path / "trouble",
        len((tmp_path / "rows").read_text().splitlines()),
        time.monotonic() - start,
    )


def pid_of(done: Ended, rank: int) -> int:
    return next(e.pid for e in done.outcome.ranks if e.rank == rank)


def line_of(done: Ended, rank: int) -> str:
    (only,) = done.told
    name = f"rank {rank} on {HOST} (pid {pid_of(done, rank)})"
    (line,) = [line for line in only["lines"][2:] if name in line.partition("): ")[0] + ")"]
    return line.partition("): ")[2]


def overslept(rank: int) -> Callable[[int, Point], None]:
    def break_it(me: int, point: Point) -> None:
        if me == rank and point == POINTS[1]:
            time.sleep(120)

    return break_it


@pytest.mark.parametrize("absent", range(WORLD))
def test_a_rank_that_does_not_arrive_is_named_with_what_every_rank_does(
    absent: int, tmp_path: Path
) -> None:
    done = run(tmp_path, overslept(absent))
    assert done.outcome.exit_code == ExitCode.DEADLINE
    (told,) = done.told
    reason, last = told["lines"][:2]
    assert reason.startswith("all_reduce float32 sum 192 B out of place: not finished within the")
    assert reason.endswith(f"deadline of 1.5 s; rank {absent} had not begun it")
    assert last.strip() == "last finished: all_reduce float32 sum 128 B out of place"
    assert "had not begun the point" in line_of(done, absent)
    assert line_of(done, absent).split("; flight")[0].endswith("break_it")
    for other in {0, 1, 2} - {absent}:
        assert "in the point" in line_of(done, other)
        assert "all_reduce" in line_of(done, other).split("; flight")[0].rpartition(" > ")[2]
        flight = line_of(done, other).partition("flight recorder: ")[2]
        assert flight.startswith("last completed ")
        assert ", pending all_reduce #" in flight
    assert (done.finding["code"], done.finding["ranks"]) == ("RANK_DID_NOT_ARRIVE", [absent])
    names = {f"rank-{r}.{kind}" for r in range(WORLD) for kind in ("stacks.txt", "flight.json")}
    assert {p.name for p in done.folder.iterdir()} == names
    assert "break_it" in (done.folder / f"rank-{absent}.stacks.txt").read_text()
    entries = json.loads((done.folder / f"rank-{(absent + 1) % WORLD}.flight.json").read_text())
    assert (entries[-1]["profiling_name"], entries[-1]["retired"]) == ("gloo:all_reduce", False)
    assert done.rows == 2 - (absent == 0), "rank 0 keeps a row after its own samples"


@pytest.mark.parametrize("stopped", range(WORLD))
def test_a_stopped_rank_is_named_as_stopped_whoever_serves_the_store(
    stopped: int, tmp_path: Path
) -> None:
    def stop(me: int, point: Point) -> None:
        if me == stopped and point == POINTS[1]:
            os.kill(os.getpid(), signal.SIGSTOP)

    done = run(tmp_path, stop)
    assert done.outcome.exit_code == ExitCode.DEADLINE
    assert line_of(done, stopped) == f"does not answer: {Silence.STOPPED}"
    assert (done.finding["code"], done.finding["ranks"]) == ("RANK_STOPPED", [stopped])
    assert f"rank {stopped} on {HOST} (pid {pid_of(done, stopped)})" in done.told[0]["lines"][0]
    for other in {0, 1, 2} - {stopped}:
        assert "in the point" in line_of(done, other)
    assert done.rows == 2 - (stopped == 0), "rank 0 keeps a row after its own samples"
    assert done.seconds < 20


@pytest.mark.parametrize("dead", range(WORLD))
@pytest.mark.parametrize("how", ["killed", "raised"])
def test_a_rank_that_dies_is_named_by_the_others_too(dead: int, how: str, tmp_path: Path) -> None:
    def die(me: int, point: Point) -> None:
        if me == dead and point == POINTS[1]:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("a bug")

    done = run(tmp_path, die, deadline_s=60)
    assert done.outcome.culprit is not None
    assert done.outcome.culprit.rank == dead
    assert line_of(done, dead) == f"does not answer: {Silence.GONE}"
    assert (done.finding["code"], done.finding["ranks"]) == ("RANK_DIED", [dead])
    errors = [e.error for e in done.outcome.ranks if e.rank != dead and e.error]
    assert errors, "who lost the connection says so"
    assert all(f"rank {dead} on {HOST} (pid {pid_of(done, dead)})" in error for error in errors)
    logs = "".join(p.read_text() for p in (tmp_path / "logs").iterdir())
    assert "frame #" not in logs, "no page of C++ frames"


def test_a_python_that_holds_its_lock_is_named_as_not_answering(tmp_path: Path) -> None:
    def hold(me: int, point: Point) -> None:
        if me == 1 and point == POINTS[1]:
            import ctypes

            ctypes.PyDLL(None).sleep(
                60
            )  # PyDLL keeps the interpreter's lock, as a bad extension does

    done = run(tmp_path, hold)
    assert line_of(done, 1) == f"does not answer: {Silence.MUTE}"
    assert done.finding["code"] == "RANK_DOES_NOT_ANSWER"


def test_nothing_is_left_of_a_sweep_that_ends_well(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        import threading

        store = join(identity, open_store)
        options = BenchOptions(iterations=1, warmup=0, deadline_s=60)
        for _ in range(3):
            measure_points(identity, POINTS[:1], options, lambda *_: None, store=store)
        left = [t.name for t in threading.enumerate() if t.name in ("watchdog", "witness")]
        if identity.rank == 0 and left:
            time.sleep(0.2)  # its thread wakes a little after the socket closed
            left = [t.name for t in threading.enumerate() if t.name in ("watchdog", "witness")]
        (tmp_path / f"left-{identity.rank}").write_text(" ".join(left))
        return 0

    assert run_local_ranks(WORLD, rank_main, log_dir=tmp_path / "logs").message is None
    assert (tmp_path / "left-0").read_text() == ""
    assert len(list(Path("/proc/self/fd").iterdir())) == before
