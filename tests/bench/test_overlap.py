"""Two things at once: the arithmetic on times whose truth is known, and real gloo ranks."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.check import Found
from clusterlab.bench.control import Control
from clusterlab.bench.overlap.compute import check_products, products
from clusterlab.bench.overlap.figures import Round, figures
from clusterlab.bench.overlap.measure import OverlapOptions, Overlapped, Pair, measure_overlap
from clusterlab.core.collectives import COLLECTIVES
from clusterlab.core.dtypes import DTYPES
from clusterlab.core.errors import UsageError
from clusterlab.core.measurement import WrongElement
from clusterlab.core.rows import Point, make_point
from clusterlab.launch.local import run_local_ranks
from tests.bench.ranks import join

TIMES = st.floats(0.5, 1e6)


def rounds(
    alone: float, other: float, both: float, count: int = 20, *, seed: int = 1
) -> list[Round]:
    """Rounds with a little noise; the shorter side ends first."""
    rng = np.random.default_rng(seed)
    noise = 1 + 0.01 * rng.standard_normal((count, 3))
    return [Round(alone * a, other * b, both * c, both * c, both * c) for a, b, c in noise]


@given(TIMES, TIMES)
def test_hidden_wholly_is_1_and_one_after_the_other_is_0(alone: float, other: float) -> None:
    together = figures([Round(alone, other, max(alone, other), alone, other)])
    assert together["efficiency"].value == pytest.approx(1)
    assert together["exposed_us"].value == pytest.approx(max(0.0, alone - other), abs=1e-6 * alone)
    assert together["slowdown"].value == together["other_slowdown"].value == 1
    both = alone + other
    apart = figures([Round(alone, other, both, both, both)])
    assert apart["efficiency"].value == pytest.approx(0, abs=1e-9 * both / min(alone, other))
    assert apart["exposed_us"].value == pytest.approx(alone, rel=1e-6, abs=1e-6 * other)


def test_worse_than_one_after_the_other_is_not_clipped() -> None:
    found = figures(rounds(100, 80, 260))
    assert found["efficiency"].value == pytest.approx(-1.0, abs=0.1)
    assert found["slowdown"].value == pytest.approx(2.6, abs=0.1)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """95 % of them; of 120, no fewer than 105."""
    held = {"efficiency": 0, "exposed_us": 0, "slowdown": 0}
    for seed in range(120):
        found = figures(rounds(100, 100, 150, 25, seed=seed))
        for name, truth in (("efficiency", 0.5), ("exposed_us", 50), ("slowdown", 1.5)):
            held[name] += found[name].low <= truth <= found[name].high
    assert min(held.values()) >= 105, held


def test_intervals_narrow_with_rounds() -> None:
    few, many = figures(rounds(100, 100, 150, 8)), figures(rounds(100, 100, 150, 400))
    assert many["both_us"].high - many["both_us"].low < few["both_us"].high - few["both_us"].low


def test_no_time_at_all_is_no_error() -> None:
    nothing = figures([Round(0.0, 5.0, 5.0, 0.0, 5.0)])
    assert nothing["efficiency"].value == 0
    assert nothing["slowdown"].value == 1


@pytest.mark.parametrize(
    "bad", [{"rounds": 0}, {"side": 7}, {"side": 1 << 20}, {"max_ctas": 0}, {"max_ctas": 65}]
)
def test_bad_options_are_one_clear_error(bad: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(bad))):
        OverlapOptions(**bad)


class _Alone(Control):
    """One rank without a process group."""

    def gather(self, values):
        return [list(values)]


@pytest.mark.parametrize("side", [32, 100, 512])
def test_products_are_exact_and_a_wrong_one_is_named(side: int) -> None:
    compute = products(side, 1, torch.device("cpu"))
    control = _Alone(torch.device("cpu"), 1)
    assert check_products(compute, compute, control).wrong == 0
    assert check_products(compute, lambda: None, control).wrong == side * side  # nothing computed

    def spoil() -> None:
        compute()
        compute.out[3, 5] += 1

    outcome = check_products(compute, spoil, control)
    assert outcome.wrong == 1
    assert outcome.first is not None
    assert (outcome.first.rank, outcome.first.index) == (0, 3 * side + 5)
    assert outcome.first.got == outcome.first.expected + 1


def overlapped(
    world_size: int, pairs: list[Pair], tmp_path: Path, options: OverlapOptions
) -> list[Overlapped]:
    """What rank 0 measured on freshly forked ranks."""
    file = tmp_path / "overlapped.pickle"

    def rank_main(identity, open_store) -> int:
        store = join(identity, open_store)
        done: list[Overlapped] = []
        measure_overlap(identity, pairs, options, done.append, store=store)
        if identity.rank == 0:
            file.write_bytes(pickle.dumps(done))
        return 0

    outcome = run_local_ranks(world_size, rank_main)
    assert outcome.message is None
    return pickle.loads(file.read_bytes())


def point(name: str, size: int, world_size: int) -> Point:
    return make_point(name, size, DTYPES["float32"], world_size)


@pytest.mark.ranks
@pytest.mark.parametrize("world_size", [2, 3])
def test_every_collective_is_right_beside_compute_and_beside_another(world_size, tmp_path) -> None:
    pairs = [
        Pair(
            point(name, 50_001, world_size),
            None if other is None else point(other, 50_001, world_size),
        )
        for name in COLLECTIVES
        for other in (None, "all_reduce", "send_recv")
    ]
    done = overlapped(world_size, pairs, tmp_path, OverlapOptions(rounds=2))
    assert [d.pair for d in done] == pairs
    for d in done:
        assert d.checked is not None
        assert d.other_checked is not None
        assert (d.checked.wrong, d.other_checked.wrong) == (0, 0), d.pair
        assert len(d.rounds) == 2
        assert all(r.both >= max(r.beside, r.other_beside) * 0.999 for r in d.rounds)
        assert all(min(r.alone, r.other_alone, r.beside, r.other_beside) > 0 for r in d.rounds)
        assert (d.compute is None) == (d.pair.other is not None)


@pytest.mark.ranks
def test_a_spoiled_element_is_named(tmp_path) -> None:
    pairs = [Pair(point("all_gather", 64_000, 2), None)]
    options = OverlapOptions(rounds=1, corrupt=(1, 77))
    (done,) = overlapped(2, pairs, tmp_path, options)
    assert done.checked is not None
    assert done.checked.wrong == 1
    assert isinstance(done.checked.first, WrongElement)
    assert (done.checked.first.rank, done.checked.first.index) == (1, 77)
    assert done.other_checked is not None
    assert done.other_checked.wrong == 0


def test_found_has_the_four_values_that_ranks_exchange() -> None:
    assert tuple(Found.__dataclass_fields__) == ("wrong", "index", "expected", "got")
