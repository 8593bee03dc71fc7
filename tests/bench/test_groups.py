"""Groups of ranks at the same time: each its own root, data and times; the rest waits."""

from __future__ import annotations

import dataclasses

import pytest

from clusterlab.bench.groups import check_steps, is_transfer, ranks_of, seat_of
from clusterlab.bench.options import BenchOptions
from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.rows import make_point
from tests.bench.ranks import QUICK, sweep

F32 = DTYPES["float32"]


def of(name, ranks, size=4096, **more):
    return make_point(name, size, F32, len(ranks), ranks=tuple(ranks), **more)


@pytest.mark.ranks
@pytest.mark.parametrize("name", list(COLLECTIVES))
def test_halves_of_five_ranks_run_at_once_and_overlapping_groups_after_them(name, tmp_path):
    """(0,2) and (1,4), 3 waits; then groups that overlap them, one of them of all; roots within groups."""
    steps = [
        [of(name, (0, 2), root=1, in_place=False), of(name, (1, 4), root=0, size=64)],
        [of(name, (1, 2, 3), root=2, in_place=name not in ("all_to_all", "send_recv"))],
        [of(name, (0, 1), root=1), of(name, (2, 3, 4), root=0)],
        [make_point(name, 4096, F32, 5, root=4)],
        [of(name, (0, 2), root=0)],
    ]
    done = sweep(5, [], tmp_path, steps=steps)
    assert done.outcome.exit_code == 0, done.outcome.message
    assert [p for p, _, _ in done.measured] == [p for step in steps for p in step]
    for _, measured, slowest_us in done.measured:
        assert measured.wrong == 0
        assert len(slowest_us) == QUICK.iterations
        assert measured.time_us_loop > 0


@pytest.mark.ranks
def test_wrong_data_in_a_group_names_the_rank_of_the_run_and_spares_the_other_group(tmp_path):
    steps = [[of("all_reduce", (0, 1)), of("all_reduce", (2, 3))]]
    options = dataclasses.replace(QUICK, corrupt=(3, 17))
    (_, left, _), (_, right, _) = sweep(4, [], tmp_path, steps=steps, options=options).measured
    assert left.wrong == 0
    assert right.wrong == 1
    assert (right.first_wrong.rank, right.first_wrong.index) == (3, 17)


@pytest.mark.ranks
def test_groups_can_be_made_again_in_the_same_processes(tmp_path):
    """A soak measures the same steps over and over: their groups must not be mistaken for the old ones."""
    from clusterlab.bench.runner import measure_steps
    from clusterlab.launch.local import run_local_ranks
    from tests.bench.ranks import join

    steps = [[of("all_gather", (0, 2))], [of("all_gather", (1, 2))]]
    kept = tmp_path / "kept"

    def rank_main(identity, open_store):
        store = join(identity, open_store)
        for _ in range(3):
            found = []
            measure_steps(identity, steps, QUICK, lambda *one, f=found: f.append(one), store=store)
            if identity.rank == 0:
                with kept.open("a") as file:
                    file.write(f"{[m.wrong for _, m, _ in found]}\n")
        return 0

    outcome = run_local_ranks(3, rank_main)
    assert outcome.exit_code == 0, outcome.message
    assert kept.read_text() == "[0, 0]\n" * 3


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ([of("all_reduce", (0, 1)), of("all_reduce", (1, 2))], "no rank in two points"),
        ([of("all_reduce", (0, 9))], "ranks below 4"),
        ([of("all_reduce", (2, 1))], "rising order"),
        (
            [of("all_reduce", (0, 1)), of("all_reduce", (2, 3), timing="graph")],
            "one for all its points",
        ),
    ],
)
def test_a_step_that_cannot_run_at_once_is_refused(step, says):
    with pytest.raises(UsageError, match=says):
        check_steps([step], 4)


def test_a_pair_counts_its_ranks_as_it_says():
    send = of("send", (3, 1))
    check_steps([[send]], 4)
    assert [seat_of([send], rank) and seat_of([send], rank).rank for rank in range(4)] == [
        None,
        1,
        None,
        0,
    ]


@pytest.mark.parametrize("name", [*COLLECTIVES, "send", "ping_pong"])
def test_only_two_ranks_that_send_need_no_group(name):
    assert is_transfer(of(name, (0, 1))) == (name in ("send", "ping_pong", "send_recv"))
    if name in COLLECTIVES:
        assert not is_transfer(of(name, (0, 1, 2)))
        assert ranks_of(make_point(name, 64, F32, 3)) == (0, 1, 2)


def test_defaults_measure_as_nccl_tests_does():
    assert (BenchOptions().iterations, BenchOptions().warmup) == (20, 5)
