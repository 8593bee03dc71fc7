"""Who was slow in which phase; growth that is real, and noise that is not."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.core.bringup import Bringup, RankBringup, Repeated
from clusterlab.verdict.bringup import (
    LEAST_COUNTED,
    TOLERANCE,
    growth_findings,
    growths,
    job_s,
    judged,
    last_to_arrive,
    spreads,
    theil_sen,
    warm_up,
)

MIB = 2**20


def rank(number: int, repeated: Repeated | None = None, **phases: float) -> RankBringup:
    return RankBringup(
        number,
        f"n{number // 2}",
        1,
        phases or {"start": 1.0},
        100.0,
        110.0 + number,
        None,
        repeated,
    )


def job(*ranks: RankBringup) -> Bringup:
    return Bringup("gloo", "pmix", "pmix", "gloo", ranks)


def after(values: Sequence[float], resource: str = "fds") -> Repeated:
    """Communicators after each of which ``resource`` was at ``values``."""
    each = (0.1,) * (len(values) - 1)
    return Repeated(each, each, each, {resource: tuple(values)})


def test_phases_stand_in_order_and_the_total_leaves_the_second_call_out() -> None:
    ranks = [
        rank(r, start=1.0, torch=2.0 + r, rendezvous=2.0 - r, first_call=0.5, second_call=0.25)
        for r in range(3)
    ]
    found = {s.phase: s for s in spreads(ranks)}
    assert list(found) == ["start", "torch", "rendezvous", "first_call", "total", "second_call"]
    torch = found["torch"]
    assert (torch.min_s, torch.median_s, torch.max_s, torch.slowest.rank) == (2.0, 3.0, 4.0, 2)
    assert (found["rendezvous"].max_s, found["rendezvous"].slowest.rank) == (2.0, 0)
    assert {found["total"].min_s, found["total"].max_s} == {5.5}
    assert last_to_arrive(ranks) == (ranks[2], 5.0)
    assert job_s(ranks) == 12.0


@settings(deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e3, 1e3),
    st.integers(2, 900),
    st.randoms(use_true_random=False),
)
def test_the_slope_of_a_line_is_found_although_a_quarter_of_it_is_wild(
    base: float, slope: float, length: int, rng: random.Random
) -> None:
    values = [base + slope * i for i in range(length)]
    for i in rng.sample(range(length), length // 4 if length > 40 else 0):
        values[i] = rng.uniform(-1e9, 1e9)
    assert theil_sen(values) == pytest.approx(slope, abs=max(1e-3, abs(slope) * 0.2))


def test_a_slope_needs_two_points() -> None:
    assert theil_sen([]) == theil_sen([3.0]) == 0.0


@pytest.mark.parametrize("times", [25, 60, 200, 2000])
@pytest.mark.parametrize(
    ("resource", "each"),
    [("fds", 1.0), ("threads", 2.0), ("device_bytes", 2.0 * MIB), ("rss_bytes", 0.1 * MIB)],
)
def test_a_leak_of_one_rank_is_found_with_its_size(times: int, resource: str, each: float) -> None:
    leaking = after([100 + each * i for i in range(times + 1)], resource)
    flat = after([100.0] * (times + 1), resource)
    bringup = job(rank(0, flat), rank(1, leaking), rank(2, flat))
    (found,) = growths(bringup)
    assert (found.rank, found.grows) == (1, True)
    assert found.per_communicator == pytest.approx(each)
    assert found.whole == pytest.approx(each * (times - warm_up(times)))
    (finding,) = growth_findings(bringup)
    assert finding.ranks == (1,)
    assert judged(bringup)[0] == "growth"  # type: ignore[index]


@pytest.mark.parametrize("times", [25, 60, 200])
@pytest.mark.parametrize(
    "shape",
    [
        lambda i, n: 10.0 + 50 * min(i, warm_up(n)),  # the first ones fill pools
        *(
            lambda i, n, at=at: 10.0 + (i > n * at) for at in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
        ),  # one step
        lambda i, n: 10.0 + i % 3,  # comes and goes
        lambda i, n: 1000.0 - i,  # shrinks
        lambda i, n: 10.0 + (1e6 if i == n // 2 else 0),  # an outlier
        lambda i, n: 10.0 + TOLERANCE["fds"] * i * 0.9,  # within what is allowed
    ],
)
def test_what_does_not_grow_passes(times: int, shape) -> None:  # type: ignore[no-untyped-def]
    bringup = job(rank(0, after([shape(i, times) for i in range(times + 1)])))
    assert growth_findings(bringup) == []
    assert judged(bringup)[0] == "pass"  # type: ignore[index]


@given(st.integers(1, 400))
def test_too_few_communicators_give_no_verdict_and_say_how_many_would(times: int) -> None:
    bringup = job(rank(0, after([float(i) for i in range(times + 1)])))
    verdict = judged(bringup)
    assert verdict is not None
    enough = times - warm_up(times) >= LEAST_COUNTED
    assert verdict[0] == ("growth" if enough else "no_verdict")
    if not enough:
        least = int(verdict[1].split(",")[1].split()[0])
        again = job(rank(0, after([float(i) for i in range(least + 1)])))
        assert judged(again)[0] == "growth"  # type: ignore[index]
        fewer = job(rank(0, after([float(i) for i in range(least)])))
        assert judged(fewer)[0] == "no_verdict"  # type: ignore[index]


def test_no_communicators_no_verdict_to_give() -> None:
    assert judged(job(rank(0))) is None
    assert growths(job(rank(0))) == []
