"""Real ranks over gloo: every combination delivers the right data, and every fault ends in one message."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from clusterlab.bench.buffers import Arena
from clusterlab.bench.ops import bind
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.support import unsupported_reason
from clusterlab.core.collectives import REDUCE_OPS, SWEPT
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.measurement import WrongElement
from clusterlab.core.rows import make_point
from clusterlab.launch.local import run_local_ranks
from tests.bench.ranks import QUICK, combinations, every_point, join, sweep

pytestmark = pytest.mark.ranks

F32 = DTYPES["float32"]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_combination_is_right_in_place_and_out_of_place(world_size, tmp_path):
    points = every_point("gloo", world_size, [1001])
    done = sweep(world_size, points, tmp_path)
    assert done.outcome.message is None
    assert [p for p, _, _ in done.measured] == points
    assert _wrong(done.measured) == []
    unchecked = {p.collective for p, m, _ in done.measured if m.wrong is None}
    assert unchecked <= {"all_to_all", "all_to_all_v", "send_recv"}
    assert all(p.in_place for p, m, _ in done.measured if m.wrong is None)


@pytest.mark.parametrize("world_size", [4, 8])
def test_every_combination_is_right_on_more_ranks(world_size, tmp_path):
    points = every_point("gloo", world_size, [2003], alternate_places=True)
    done = sweep(world_size, points, tmp_path)
    assert done.outcome.message is None
    assert [p for p, _, _ in done.measured] == points
    assert _wrong(done.measured) == []


def test_every_collective_is_right_over_many_periods_of_the_data(tmp_path):
    """Sizes that are odd, that no chunk divides, and far beyond the period of the test data."""
    points = [
        make_point(name, size, DTYPES[dtype], 4, op="sum", root=3, in_place=in_place)
        for name in SWEPT
        for dtype in ("bfloat16", "int8")
        for size in (1, 7, 1_000_003)
        for in_place in (False, True)
    ]
    done = sweep(4, points, tmp_path)
    assert done.outcome.message is None
    assert len(done.measured) == len(points)
    assert _wrong(done.measured) == []


def _wrong(measured):
    return [(p, m.first_wrong) for p, m, _ in measured if m.wrong]


def test_what_the_table_calls_unsupported_really_fails(tmp_path):
    """Each combination that is left out is tried: when gloo learns one, this test says so."""
    missing = [
        (name, dtype, op)
        for name, what in SWEPT.items()
        for dtype in DTYPES
        for op in (REDUCE_OPS if what.reduces else (None,))
        if (name, dtype, op) not in set(combinations("gloo", 2))
    ]
    assert missing
    worked = tmp_path / "worked"

    def rank_main(identity, open_store):
        import torch

        join(identity, open_store)
        for name, dtype, op in missing:
            point = make_point(name, 64, DTYPES[dtype], 2, op=op)
            buffers = Arena([point], torch.device("cpu")).buffers(point, identity.rank)
            buffers.send.zero_()
            buffers.recv.zero_()
            try:
                bind(point, buffers, identity.rank).call()
            except RuntimeError:
                continue
            if identity.rank == 0:
                with worked.open("a") as file:
                    file.write(f"{name} {dtype} {op}\n")
        return 0

    assert run_local_ranks(2, rank_main).message is None
    assert not worked.exists(), worked.read_text()


def test_gloo_cannot_send_to_the_same_rank():
    assert unsupported_reason("gloo", 1, "send_recv", "float32", None)

    def rank_main(identity, open_store):
        import torch

        join(identity, open_store)
        point = make_point("send_recv", 64, F32, 1)
        buffers = Arena([point], torch.device("cpu")).buffers(point, 0)
        with pytest.raises(RuntimeError):
            bind(point, buffers, 0).call()
        return 0

    assert run_local_ranks(1, rank_main).message is None


@pytest.mark.parametrize("name", list(SWEPT))
def test_a_corrupted_element_is_named_with_rank_index_expected_and_got(name, tmp_path):
    rank = 0 if name in ("reduce", "gather") else 2
    points = [make_point(name, 3000, DTYPES[d], 3, op="sum") for d in ("int32", "float32")]
    done = sweep(3, points, tmp_path, options=_with(corrupt=(rank, 17), keep_going=True))
    assert done.outcome.message is None
    assert len(done.measured) == 2
    for _, measured, _ in done.measured:
        assert measured.wrong == 1
        first = measured.first_wrong
        assert isinstance(first, WrongElement)
        assert (first.rank, first.index) == (rank, 17)
        assert first.got != first.expected
    integers = done.measured[0][1].first_wrong
    assert integers.got == integers.expected + 1


@pytest.mark.parametrize(("keep_going", "points_measured"), [(False, 1), (True, 3)])
def test_wrong_data_ends_the_sweep_on_all_ranks_at_the_same_point(
    keep_going, points_measured, tmp_path
):
    points = [make_point("all_reduce", 64 * (i + 1), F32, 3) for i in range(3)]

    def note(identity, point):
        with (tmp_path / f"seen-{identity.rank}").open("a") as file:
            file.write(f"{point.size_bytes}\n")

    options = _with(corrupt=(1, 3), keep_going=keep_going)
    done = sweep(3, points, tmp_path, options=options, interfere=note)
    assert done.outcome.exit_code == 0, "all ranks left together"
    assert [m.wrong for _, m, _ in done.measured] == [1] * points_measured
    seen = [(tmp_path / f"seen-{rank}").read_text().split() for rank in range(3)]
    assert seen == [["64", "128", "192"][:points_measured]] * 3


def test_without_the_check_nothing_is_said_about_the_data(tmp_path):
    points = [make_point("all_reduce", 64, F32, 2)]
    done = sweep(2, points, tmp_path, options=_with(check=False, corrupt=(1, 3)))
    assert done.measured[0][1].wrong is None
    assert done.measured[0][1].first_wrong is None


def test_times_and_samples_belong_together(tmp_path):
    points = [make_point("all_reduce", 4096, F32, 2)]
    done = sweep(2, points, tmp_path, options=_with(iterations=7, warmup=2))
    (_, measured, slowest_us) = done.measured[0]
    assert (measured.iterations, measured.warmup) == (7, 2)
    assert len(slowest_us) == 7
    assert measured.time_us_min == min(slowest_us)
    assert measured.time_us_max == max(slowest_us)
    assert sorted(slowest_us)[3] == measured.time_us_p50
    assert measured.time_us_loop > 0


def test_each_ranks_samples_are_its_own(tmp_path):
    def note(identity, _point):
        (tmp_path / f"seen-{identity.rank}").touch()

    points = [make_point("broadcast", 64, F32, 3)]
    sweep(3, points, tmp_path, interfere=note)
    assert sorted(p.name for p in tmp_path.glob("seen-*")) == ["seen-0", "seen-1", "seen-2"]


def test_a_rank_killed_in_mid_sweep_is_named_and_finished_points_stay(tmp_path):
    points = [make_point("all_reduce", 64 * (i + 1), F32, 4) for i in range(50)]

    def kill(identity, point):
        if identity.rank == 2 and point == points[10]:
            os.kill(os.getpid(), signal.SIGKILL)

    done = sweep(4, points, tmp_path, interfere=kill, log_dir=tmp_path / "logs")
    outcome = done.outcome
    assert outcome.exit_code == ExitCode.DEADLINE
    assert outcome.culprit is not None
    assert (outcome.culprit.rank, outcome.culprit.signal) == (2, signal.SIGKILL)
    assert f"rank 2 (pid {outcome.culprit.pid}) was ended by signal 9 (SIGKILL)" in outcome.message
    assert [p for p, _, _ in done.measured][:10] == points[:10]
    assert len(done.measured) <= 11
    survivors = [e for e in outcome.ranks if e.rank != 2]
    assert all(e.failed for e in survivors)
    for survivor in survivors:
        # each either saw the connection go, and said during which point, or was stopped
        assert survivor.stopped or "lost the connection to another rank" in survivor.error


def test_an_exception_in_one_rank_names_that_rank_not_those_that_lost_it(tmp_path):
    points = [make_point("all_reduce", 64, F32, 4)] * 5

    def fail(identity, _point):
        if identity.rank == 3:
            raise ValueError("a bug in rank 3")

    outcome = sweep(4, points, tmp_path, interfere=fail, log_dir=tmp_path / "logs").outcome
    assert outcome.exit_code == 1
    assert "rank 3" in outcome.message
    assert "ValueError: a bug in rank 3" in outcome.message
    log = (tmp_path / "logs" / "rank-3.log").read_text()
    assert "[rank 3] Traceback" in log
    assert "[rank 3] ValueError: a bug in rank 3" in log


def test_sizes_beyond_memory_are_refused_on_all_ranks_before_allocating(tmp_path):
    points = [make_point("all_reduce", size, F32, 2) for size in (1024, 1 << 50)]
    outcome = sweep(2, points, tmp_path).outcome
    assert outcome.exit_code == ExitCode.USAGE
    assert [e.exit_code for e in outcome.ranks] == [ExitCode.USAGE] * 2
    assert "size: all_reduce of 1024 TiB needs" in outcome.message
    assert "1 KiB is the largest that fits" in outcome.message


def test_a_corruption_that_no_point_would_see_is_refused(tmp_path):
    points = [make_point("all_reduce", 64, F32, 2)]
    outcome = sweep(2, points, tmp_path, options=_with(corrupt=(0, 16))).outcome
    assert outcome.exit_code == ExitCode.USAGE
    assert "has no element 16 on rank 0" in outcome.message


SWEEP_FOR_EVER = """
    import signal, sys
    from pathlib import Path
    from clusterlab.bench.options import BenchOptions
    from clusterlab.core.dtypes import DTYPES
    from clusterlab.core.rows import make_point
    from tests.bench.ranks import sweep

    signal.signal(signal.SIGINT, signal.default_int_handler)
    points = [make_point("all_reduce", 64, DTYPES["float32"], 3)] * 100_000
    folder = Path(sys.argv[1])

    def ready(identity, point):
        if (folder / "measured.pickle").stat().st_size:
            (folder / "ready").touch()

    done = sweep(3, points, folder, options=BenchOptions(iterations=5), interfere=ready)
    print(done.outcome.message, len(done.measured) > 0, flush=True)
    sys.exit(done.outcome.exit_code)
"""


@pytest.mark.parametrize("to_group", [True, False], ids=["ctrl-c", "kill"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_mid_sweep_everything_ends_and_finished_points_stay(
    number, to_group, tmp_path
):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SWEEP_FOR_EVER), str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        (os.killpg if to_group else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 128 + number, err
    assert re.search(rf"interrupted by {number.name}; all 3 ranks have ended True", out)
    with pytest.raises(ProcessLookupError):  # nobody is left in the session's process group
        os.killpg(process.pid, 0)


def _with(**changes):
    import dataclasses

    return dataclasses.replace(QUICK, **changes)


def test_quick_options_differ_from_the_defaults_in_effort_only():
    assert QUICK.check
    assert BenchOptions().iterations == 20
