"""Pairs of real gloo ranks: all measured, data checked, one at a time or at once."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from clusterlab.bench.options import BenchOptions
from clusterlab.bench.runner import measure_steps
from clusterlab.core.measurement import Measurement
from clusterlab.core.pairs import one_by_one, pair_steps, round_robin
from clusterlab.core.rows import Point
from clusterlab.launch.identity import RankIdentity
from clusterlab.launch.local import run_local_ranks
from clusterlab.launch.local_outcome import LocalOutcome
from clusterlab.launch.local_rank import OpenStore
from tests.bench.ranks import join

pytestmark = pytest.mark.ranks

OPTIONS = BenchOptions(iterations=3, warmup=1, deadline_s=60)


@dataclasses.dataclass(frozen=True)
class Measured:
    outcome: LocalOutcome
    points: list[tuple[Point, Measurement, list[float]]]


def measure(
    world_size: int,
    steps: Sequence[Sequence[Point]],
    folder: Path,
    *,
    options: BenchOptions = OPTIONS,
    after: Callable[[int, Point], None] | None = None,
    logs: Path | None = None,
) -> Measured:
    results = folder / "measured.pickle"

    def rank_main(identity: RankIdentity, open_store: OpenStore) -> int:
        store = join(identity, open_store)
        found: list[tuple[Point, Measurement, list[float]]] = []
        measure_steps(
            identity,
            steps,
            options,
            lambda *one: found.append(one),
            store=store,
            on_samples=lambda point, _: after(identity.rank, point) if after else None,
        )
        if identity.rank == 0:
            results.write_bytes(pickle.dumps(found))
        return 0

    outcome = run_local_ranks(world_size, rank_main, log_dir=logs)
    return Measured(outcome, pickle.loads(results.read_bytes()) if results.exists() else [])


def test_every_pair_is_measured_and_no_element_is_wrong(tmp_path: Path) -> None:
    steps = pair_steps(round_robin(4), [1000, 65536], ["float32"])
    done = measure(4, steps, tmp_path)
    assert done.outcome.exit_code == 0, done.outcome.message
    assert [p for p, _, _ in done.points] == [p for step in steps for p in step]
    for _, measured, slowest_us in done.points:
        assert measured.wrong == 0
        assert len(slowest_us) == OPTIONS.iterations
        assert 0 < measured.time_us_min <= measured.time_us_p50 <= measured.time_us_max


def test_an_odd_rank_waits_and_pairs_go_one_by_one(tmp_path: Path) -> None:
    steps = pair_steps(one_by_one(3), [4096], ["int8"])
    done = measure(3, steps, tmp_path)
    assert done.outcome.exit_code == 0, done.outcome.message
    assert len(done.points) == 3 * 4
    assert all(m.wrong == 0 for _, m, _ in done.points)


def test_a_corrupted_element_is_found_where_its_rank_receives(tmp_path: Path) -> None:
    steps = pair_steps(round_robin(3), [4096], ["float32"])
    options = dataclasses.replace(OPTIONS, corrupt=(2, 1))
    for point, measured, _ in measure(3, steps, tmp_path, options=options).points:
        assert point.ranks is not None
        hit = point.ranks[1] == 2 if point.collective == "send" else 2 in point.ranks
        assert measured.wrong == int(hit), point
        if measured.first_wrong is not None:
            assert (measured.first_wrong.rank, measured.first_wrong.index) == (2, 1)
            assert measured.first_wrong.expected != measured.first_wrong.got


def test_corruption_that_no_point_would_see_is_refused(tmp_path: Path) -> None:
    steps = pair_steps(round_robin(2), [4096], ["float32"])
    options = dataclasses.replace(OPTIONS, corrupt=(1, 2))  # 8 B hold elements 0 and 1
    done = measure(2, steps, tmp_path, options=options, logs=tmp_path)
    assert done.outcome.exit_code == 2


def test_a_killed_rank_is_named_and_its_peer_says_which_pair_lost_it(tmp_path: Path) -> None:
    def die(rank: int, point: Point) -> None:
        if rank == 1 and point.collective == "send":
            os.kill(os.getpid(), signal.SIGKILL)

    steps = pair_steps(round_robin(2), [4096], ["float32"])
    done = measure(2, steps, tmp_path, after=die, logs=tmp_path)
    assert done.outcome.exit_code == 4
    assert "rank 1 (pid " in done.outcome.message
    (survivor,) = (e for e in done.outcome.ranks if e.rank == 0)
    # it either saw the connection go, and said during which point, or was stopped
    lost = "send float32 4096 B rank 1 → 0: lost the connection to another rank"
    assert survivor.stopped or lost in survivor.error


def test_a_pair_that_hangs_passes_its_deadline_and_names_who_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import time

    def sleep(rank: int, point: Point) -> None:
        if rank == 1 and point.collective == "send":
            time.sleep(30)

    steps = pair_steps(round_robin(2), [4096], ["float32"])
    options = dataclasses.replace(OPTIONS, deadline_s=1.0)
    done = measure(2, steps, tmp_path, options=options, after=sleep, logs=tmp_path)
    assert done.outcome.exit_code == 4
    said = capfd.readouterr().err
    assert "send float32 4096 B rank 1 → 0: not finished within the deadline of 1 s" in said
    assert "rank 1 had not begun it" in said
