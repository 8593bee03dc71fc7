"""Shapes without a model: each is seen where it was put, by its size, and hardly ever where it was not."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.cost.scoring.measured import MeasuredPoint, read_measured
from clusterlab.verdict.why.shape_curve import curve_of, repeat_noise, roughness
from clusterlab.verdict.why.shape_samples import modes_of
from clusterlab.verdict.why.shapes import Shape, shapes_of
from tests.support import shared_dir

SIZES = [8 << k for k in range(31)]


def healthy(size: int) -> float:
    """µs: 20 µs, 300 GB/s in the end, half of that near 2 MiB."""
    return (20.0**1.5 + (size / 3e5 * (1 + math.sqrt((1 << 20) / size))) ** 1.5) ** (1 / 1.5)


CURVE = [healthy(size) for size in SIZES]


def kinds(shapes: Sequence[Shape]) -> set[str]:
    return {shape.kind for shape in shapes if shape.alarming}


def slowed(factor: float, where: Sequence[int]) -> list[float]:
    return [t * factor if i in where else t for i, t in enumerate(CURVE)]


def test_the_healthy_curve_shows_its_floor_and_nothing_else() -> None:
    (floor,) = shapes_of(SIZES, CURVE)
    assert floor.kind == "flat_floor"
    assert floor.time_us == pytest.approx(20, rel=0.1)
    assert 64 << 10 <= floor.sizes[-1] <= 1 << 20


@pytest.mark.parametrize("factor", [1.5, 2.0, 5.0])
@pytest.mark.parametrize("at", [5, 12, 25, 28])
def test_one_slow_row_is_a_dip_of_its_depth(at: int, factor: float) -> None:
    """On the floor and on the plateau. In the knee both change so fast that a small one is no dip."""
    shapes = {s.kind: s for s in shapes_of(SIZES, slowed(factor, [at])) if s.alarming}
    assert shapes["dip"].sizes == (SIZES[at],)
    # Against a plateau still rising on one side, or a floor.
    assert shapes["dip"].strength == pytest.approx(factor, rel=0.1)
    assert kinds(tuple(shapes.values())) <= {"dip", "fall"}


@pytest.mark.parametrize("factor", [2.0, 4.0])
@pytest.mark.parametrize(("first", "last"), [(4, 7), (12, 15), (22, 25)])
def test_a_slow_window_is_a_dip_over_all_of_it(first: int, last: int, factor: float) -> None:
    shapes = {s.kind: s for s in shapes_of(SIZES, slowed(factor, range(first, last + 1)))}
    assert shapes["dip"].sizes == tuple(SIZES[first : last + 1])
    assert "cliff" not in shapes
    assert f"{shapes['dip'].strength:.3g} times" in shapes["dip"].evidence


@pytest.mark.parametrize("factor", [1.5, 3.0, 10.0])
@pytest.mark.parametrize("edge", [25, 27, 29])
def test_busbw_that_does_not_come_back_is_a_cliff(edge: int, factor: float) -> None:
    shapes = {s.kind: s for s in shapes_of(SIZES, slowed(factor, range(edge, 31))) if s.alarming}
    assert set(shapes) == {"cliff"}
    assert shapes["cliff"].sizes == tuple(SIZES[edge:])
    # The plateau still rises behind the edge, and made up for a part of it.
    assert factor / 1.25 <= shapes["cliff"].strength <= factor


def test_the_last_row_alone_is_no_cliff() -> None:
    assert kinds(shapes_of(SIZES, slowed(3.0, [30]))) == set()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_slow_first_rows_are_a_cold_start_and_no_dip(rows: int) -> None:
    (cold, floor) = shapes_of(SIZES, slowed(4.0, range(rows)))
    assert cold.kind == "cold_start"
    assert cold.sizes == tuple(SIZES[:rows])
    assert cold.strength == pytest.approx(4, rel=0.05)
    assert floor.time_us == pytest.approx(20, rel=0.1), "the floor is of the warm rows"


def test_the_first_of_two_repeats_takes_the_start() -> None:
    shapes = shapes_of([*SIZES, *SIZES], [*slowed(6.0, [0]), *CURVE])
    assert kinds(shapes) == {"cold_start"}


def test_a_start_on_the_plateau() -> None:
    sizes, times = SIZES[25:], slowed(1.7, [25])[25:]
    assert kinds(shapes_of(sizes, times)) == {"cold_start"}
    assert kinds(shapes_of(sizes, CURVE[25:])) == set()


@pytest.mark.parametrize("factor", [1.4, 2.0, 8.0])
def test_a_fall_names_the_row_before_it(factor: float) -> None:
    shapes = {s.kind: s for s in shapes_of(SIZES, slowed(factor, [3, 9]))}
    assert shapes["fall"].sizes == (SIZES[3], SIZES[9])
    assert shapes["fall"].strength == pytest.approx(factor, rel=0.02)
    assert "1 other sizes" in shapes["fall"].evidence


def test_a_slow_row_of_two_is_an_outlier_and_no_shape() -> None:
    shapes = shapes_of([*SIZES, *SIZES], [*CURVE, *slowed(5.0, [14])])
    assert kinds(shapes) == set()


def test_repeats_that_often_disagree_are_two_modes() -> None:
    shapes = {
        s.kind: s for s in shapes_of([*SIZES, *SIZES], [*CURVE, *slowed(1.6, range(4, 28, 4))])
    }
    assert shapes["bimodal"].strength == pytest.approx(1.6)
    assert shapes["bimodal"].sizes == tuple(SIZES[4:28:4])


def test_repeats_that_differ_at_every_size_alike_are_no_modes_and_no_noise() -> None:
    """Out of place is slower than in place by a copy."""
    shapes = shapes_of([*SIZES, *SIZES], [*CURVE, *slowed(1.35, range(31))])
    assert kinds(shapes) == set()


def test_iterations_at_two_levels_are_bimodal() -> None:
    draw = random.Random(5)
    two = [draw.choice([100.0, 130.0]) * draw.lognormvariate(0, 0.01) for _ in range(40)]
    one = [100.0 * draw.lognormvariate(0, 0.03) for _ in range(40)]
    (shape,) = (s for s in shapes_of(SIZES, CURVE, {8: one, 64: two}) if s.kind == "bimodal")
    assert shape.sizes == (64,)
    assert shape.strength == pytest.approx(1.3, rel=0.02)
    assert "at 1 of 2 sizes" in shape.evidence


@pytest.mark.parametrize("n", [10, 20, 100])
@pytest.mark.parametrize(
    "one_mode",
    [
        lambda d: d.lognormvariate(0, 0.02),
        lambda d: d.lognormvariate(0, 0.2),
        lambda d: d.uniform(1, 1.5),
        lambda d: 1 + d.expovariate(4),
        lambda d: 2.0 if d.random() < 0.01 else d.lognormvariate(0, 0.02),
    ],
    ids=["narrow", "wide", "flat", "skewed", "stragglers"],
)
def test_one_mode_is_hardly_ever_two(one_mode: Callable[[random.Random], float], n: int) -> None:
    draw = random.Random(n)
    trials = 1000
    wrong = sum(modes_of([one_mode(draw) for _ in range(n)]) is not None for _ in range(trials))
    assert wrong <= 0.005 * trials


@pytest.mark.parametrize("repeats", [1, 2])
@pytest.mark.parametrize(("sigma", "at_most"), [(0.02, 0.0), (0.05, 0.02), (0.15, 1.0)])
def test_noise_is_no_shape_until_it_is_reported_as_noise(
    sigma: float, at_most: float, repeats: int
) -> None:
    draw = random.Random(1)
    false, told = 0, 0
    for _ in range(200):
        rows = [(s, t * draw.lognormvariate(0, sigma)) for s, t in zip(SIZES, CURVE, strict=True)
                for _ in range(repeats)]  # fmt: skip
        found = kinds(shapes_of(*zip(*rows, strict=True)))
        false += bool(found - {"noise"})
        told += "noise" in found
    assert false <= at_most * 200
    # Where noise makes shapes of its own it is itself among what is told.
    assert told >= 180 if sigma > 0.1 else told == 0


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.2])
def test_both_measures_of_noise_find_its_size(sigma: float) -> None:
    draw = random.Random(3)
    sizes = [8 * 2 ** (k / 8) for k in range(240)]
    curve = curve_of(
        [int(s) for s in sizes for _ in range(2)],
        [healthy(int(s)) * draw.lognormvariate(0, sigma) for s in sizes for _ in range(2)],
    )
    # The faster of two normal values scatters by 0.826 of one.
    assert roughness(curve) == pytest.approx(0.826 * sigma, rel=0.25)
    assert repeat_noise(curve) == pytest.approx(sigma, rel=0.25)


ROWS = st.lists(
    st.tuples(st.sampled_from(SIZES), st.floats(1e-3, 1e9)), min_size=0, max_size=40
)  # fmt: skip


@settings(deadline=None)
@given(ROWS, st.sampled_from([0.25, 4.0, 1024.0]))
def test_scale_changes_nothing_but_the_figures(rows: list[tuple[int, float]], by: float) -> None:
    def essence(times: list[float], of: float) -> list[object]:
        shapes = shapes_of([s for s, _ in rows], times)
        return [
            (s.kind, s.sizes, pytest.approx(s.strength), s.time_us and s.time_us / of)
            for s in shapes
        ]

    plain = [t for _, t in rows]
    assert essence([t * by for t in plain], by) == essence(plain, 1.0)


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_is_nothing(rows: list[tuple[int, float]], draw: random.Random) -> None:
    other = list(rows)
    draw.shuffle(other)
    first = shapes_of([s for s, _ in rows], [t for _, t in rows])
    assert shapes_of([s for s, _ in other], [t for _, t in other]) == first


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, None])
@settings(deadline=None)
@given(at=st.integers(0, 30))
def test_a_row_without_a_time_is_left_out(at: int, bad: float | None) -> None:
    times: list[float | None] = [*CURVE]
    times[at] = bad
    without = shapes_of(SIZES[:at] + SIZES[at + 1 :], CURVE[:at] + CURVE[at + 1 :])
    assert shapes_of(SIZES, times) == without
    assert kinds(without) == set()


ANY = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 1 << 70))


@settings(deadline=None)
@given(
    st.lists(st.tuples(ANY, ANY), max_size=12),
    st.dictionaries(st.integers(1, 1 << 40), st.lists(ANY, max_size=30), max_size=3),
)
def test_nothing_raises(
    rows: list[tuple[float | None, float | None]], samples: dict[int, list[float | None]]
) -> None:
    for shape in shapes_of([s for s, _ in rows], [t for _, t in rows], samples):
        assert shape.sizes
        assert shape.strength >= 1
        assert shape.evidence


def tables(points: Sequence[MeasuredPoint]) -> dict[str, list[MeasuredPoint]]:
    found: defaultdict[str, list[MeasuredPoint]] = defaultdict(list)
    for point in points:
        found[point.table].append(point)
    return dict(found)


def test_healthy_published_tables_hardly_ever_alarm() -> None:
    """Measured: 4 of 63 tables have a dip or fall, none a cliff, two modes or noise. 6 have a cold first
    row, and their publishers or a repeat of the row say so: it is a fault of the method, not of the machine.
    """
    found = tables(read_measured(shared_dir() / "measured" / "published_nccl_tests.csv").points)
    assert len(found) > 50
    alarms = Counter(
        kind
        for rows in found.values()
        for kind in kinds(shapes_of([p.size_bytes for p in rows], [p.time_us for p in rows]))
    )
    assert alarms["dip"] <= 0.07 * len(found)
    assert alarms["fall"] <= alarms["dip"]
    assert alarms["cold_start"] <= 0.1 * len(found)
    assert not alarms.keys() & {"cliff", "bimodal", "noise"}
