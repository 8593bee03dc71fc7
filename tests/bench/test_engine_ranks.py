"""What real gloo ranks agree on: how many iterations, who was late, whose clock."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
import torch

from clusterlab.bench import ways
from clusterlab.bench.common_clock import CommonClock, host_clock_id, monotonic_us
from clusterlab.bench.control import Control
from clusterlab.bench.options import BenchOptions
from clusterlab.bench.pace import AGAIN, warmup_calls
from clusterlab.bench.runner import measure_steps
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import ExitCode
from clusterlab.core.measurement import LibrarySaid
from clusterlab.core.rows import make_point
from clusterlab.launch.local import run_local_ranks
from tests.bench.ranks import QUICK, join, sweep

pytestmark = pytest.mark.ranks

F32 = DTYPES["float32"]
AUTO = BenchOptions(iterations=None, warmup=None, budget_s=0.4, deadline_s=60)


def test_automatic_iterations_stop_for_a_reason_that_holds(tmp_path):
    points = [make_point("all_reduce", size, F32, 3) for size in (64, 4096, 1 << 20)]
    done = sweep(3, points, tmp_path, options=AUTO)
    assert done.outcome.exit_code == 0, done.outcome.message
    for _, measured, slowest_us in done.measured:
        assert measured.samples == len(slowest_us) > 5
        assert measured.p50_low_us <= measured.time_us_p50 <= measured.p50_high_us
        wide = (measured.p50_high_us - measured.p50_low_us) / measured.time_us_p50
        assert (measured.stopped_by == "confident") == (wide <= AUTO.median_within)
        assert measured.stopped_by in ("confident", "budget")
        assert measured.iterations >= 5


def test_a_loose_width_needs_fewer_iterations_than_an_impossible_one(tmp_path):
    point = make_point("all_gather", 4096, F32, 2)
    samples = []
    for within in (0.9, 1e-9):
        options = dataclasses.replace(AUTO, median_within=within)
        (folder := tmp_path / str(within)).mkdir()
        ((_, measured, _),) = sweep(2, [point], folder, options=options).measured
        samples.append((measured.samples, measured.stopped_by))
    assert [why for _, why in samples] == ["confident", "budget"]
    assert 10 <= samples[0][0] < samples[1][0]


def test_the_first_size_of_a_class_warms_up_longer(tmp_path):
    sizes = (64, 128, 1 << 20, 256, 2 << 20)
    points = [make_point("all_reduce", size, F32, 2) for size in sizes]
    points.append(make_point("all_reduce", 64, DTYPES["int8"], 2))
    options = dataclasses.replace(AUTO, median_within=0.9)
    warmups = [m.warmup for _, m, _ in sweep(2, points, tmp_path, options=options).measured]
    small, middle = warmup_calls(64), warmup_calls(1 << 20)
    assert warmups == [small, AGAIN, middle, AGAIN, AGAIN, small]


def test_two_groups_at_once_stop_together(tmp_path):
    step = [
        make_point("all_reduce", size, F32, 2, ranks=r)
        for size, r in ((64, (0, 1)), (1 << 20, (2, 3)))
    ]
    done = sweep(4, [], tmp_path, steps=[step], options=AUTO)
    assert done.outcome.exit_code == 0, done.outcome.message
    (_, small, _), (_, large, _) = done.measured
    assert small.samples == large.samples
    assert small.stopped_by == large.stopped_by


@pytest.mark.parametrize("late", [0, 2])
def test_a_late_rank_is_arrival_skew_and_not_a_slow_transfer(late, tmp_path, monkeypatch):
    """One rank begins every call 20 ms after the others: they wait for it inside theirs."""
    true_bind = ways.bind

    def delayed(point, buffers, rank, group=None):
        operation = true_bind(point, buffers, rank, group)
        if rank != late:
            return operation

        def call():
            operation.call()
            time.sleep(0.02)  # after its own: its next begins late

        return dataclasses.replace(operation, call=call)

    monkeypatch.setattr(ways, "bind", delayed)
    point = make_point("all_reduce", 64, F32, 3)
    options = dataclasses.replace(QUICK, iterations=15, warmup=2)
    ((_, measured, _),) = sweep(3, [point], tmp_path, options=options).measured
    assert 16_000 < measured.arrival_skew_us < 60_000
    assert measured.rank_skew_us < measured.arrival_skew_us / 2
    assert measured.time_us_p50 > 16_000


def test_ranks_that_begin_together_have_little_arrival_skew(tmp_path):
    options = dataclasses.replace(QUICK, iterations=30, warmup=2)
    ((_, measured, _),) = sweep(
        2, [make_point("all_reduce", 64, F32, 2)], tmp_path, options=options
    ).measured
    assert 0 <= measured.arrival_skew_us < 16_000
    assert measured.rank_skew_us >= 0


@pytest.mark.parametrize(
    ("timing", "options", "says"),
    [
        ("graph", QUICK, "graph: gloo works on the calling thread"),
        ("direct", QUICK, "direct: gloo works on the calling thread"),
        ("eager", dataclasses.replace(QUICK, aggregated=4), "gloo has no groups of calls"),
        ("grpah", QUICK, "grpah"),
    ],
)
def test_ways_that_gloo_does_not_have_are_refused_on_all_ranks(timing, options, says, tmp_path):
    point = make_point("all_reduce", 64, F32, 2, timing=timing)
    outcome = sweep(2, [point], tmp_path, options=options).outcome
    assert [rank.exit_code for rank in outcome.ranks] == [ExitCode.USAGE] * 2
    assert says in outcome.message


def test_blocking_changes_nothing_where_calls_return_when_done(tmp_path):
    options = dataclasses.replace(QUICK, iterations=5, blocking=True)
    ((_, measured, _),) = sweep(
        2, [make_point("all_reduce", 64, F32, 2)], tmp_path, options=options
    ).measured
    assert measured.blocking
    assert measured.wrong == 0


@pytest.mark.parametrize("shift_us", [0.0, 7.5e6, -3e9])
def test_another_hosts_clock_is_learnt_as_well_as_it_says(shift_us, tmp_path):
    """Ranks 1 and 3 pretend to be on hosts of their own, whose clocks are ahead or behind."""
    kept = tmp_path / "clock.json"

    def rank_main(identity, open_store):
        join(identity, open_store)
        control = Control(torch.device("cpu"), identity.world_size)
        mine = shift_us * (identity.rank % 2)
        clock = CommonClock(
            control, float(identity.rank % 2 and identity.rank), lambda: monotonic_us() + mine
        )
        now = monotonic_us()
        at = [clock.common(now + mine) - now, clock.unsure_us, float(clock.host)]
        told = control.gather(at)
        if identity.rank == 0:
            kept.write_text(json.dumps([clock.hosts, told]))
        return 0

    outcome = run_local_ranks(4, rank_main)
    assert outcome.exit_code == 0, outcome.message
    hosts, told = json.loads(kept.read_text())
    assert hosts == 3
    assert [row[2] for row in told] == [0, 1, 0, 2]
    for error_us, unsure_us, host in told:
        assert abs(error_us) <= unsure_us + 0.01  # doubles hold days in µs to a few ns
        assert unsure_us < 20_000
        assert (unsure_us == 0) == (host == 0)


def test_processes_of_this_host_share_its_clock(tmp_path):
    def rank_main(identity, _open_store):
        (tmp_path / f"id-{identity.rank}").write_text(repr(host_clock_id()))
        return 0

    assert run_local_ranks(2, rank_main).exit_code == 0
    assert {float(f.read_text()) for f in tmp_path.glob("id-*")} == {host_clock_id()}


def test_what_a_witness_hears_reaches_the_rows_also_of_points_without_rank_0(tmp_path):
    """Each rank's witness says which rank it is, and counts the calls it was shown."""
    kept = tmp_path / "said.json"
    steps = [
        [make_point("all_reduce", 64, F32, 2, ranks=ranks) for ranks in ((0, 1), (2, 3))],
        [make_point("broadcast", 64, F32, 4)],
        [make_point("send", 64, F32, 2, ranks=(3, 1))],
    ]

    def rank_main(identity, open_store):
        store = join(identity, open_store)

        class Witness:
            seen = 0

            def saw(self, _point, call):
                self.seen += 1
                call()
                return LibrarySaid(transport=f"rank {identity.rank}", channels=self.seen)

        found = []
        measure_steps(
            identity,
            steps,
            QUICK,
            lambda _p, m, _s: found.append([m.said.transport, m.said.channels, m.warmup, m.wrong]),
            store=store,
            witness=Witness(),
        )
        if identity.rank == 0:
            kept.write_text(json.dumps(found))
        return 0

    outcome = run_local_ranks(4, rank_main)
    assert outcome.exit_code == 0, outcome.message
    assert json.loads(kept.read_text()) == [
        ["rank 0", 1, 2, 0],
        ["rank 2", 1, 2, 0],
        ["rank 0", 2, 2, 0],
        ["rank 3", 3, 2, 0],
    ]
