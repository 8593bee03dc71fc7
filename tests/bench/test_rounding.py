"""The rounding bound is never exceeded by honest arithmetic, and never hides one contribution."""

from __future__ import annotations

import functools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterlab.bench import data
from clusterlab.bench.check import compare
from clusterlab.bench.data import PERIOD, reduced, sent
from clusterlab.bench.rounding import avg_overflows, contributors, growth, largest_avg_base
from clusterlab.core.dtypes import DTYPES, Dtype

FLOATS = [d for d in DTYPES.values() if d.kind == "float"]
INTEGERS = [d for d in DTYPES.values() if d.kind == "int"]

floats = st.sampled_from(FLOATS)
world_sizes = st.integers(1, 40)
rounding_ops = st.sampled_from(["sum", "prod", "avg"])
seeds = st.integers(0, 2**32)


def combine(op: str, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One operation, rounded to the tensors' dtype (fp8 by way of float32, which adds no second
    rounding: its 24 bits hold any sum or product of two fp8 numbers of the test's range)."""
    x, y = (a.float(), b.float()) if a.dtype.itemsize == 1 else (a, b)
    return (x * y if op == "prod" else x + y).to(a.dtype)


def tree_reduce(op: str, parts: list[torch.Tensor], seed: int) -> torch.Tensor:
    """Combine in a random grouping and order, every step rounded: rings and trees are of this kind."""
    choose = random.Random(seed)
    parts = list(parts)
    while len(parts) > 1:
        a = parts.pop(choose.randrange(len(parts)))
        b = parts.pop(choose.randrange(len(parts)))
        parts.append(combine(op, a, b))
    return parts[0]


def as_average(total: torch.Tensor, world_size: int) -> torch.Tensor:
    return (total.double() / world_size).to(total.dtype)


def reduce_in_dtype(kind: Dtype, op: str, ranks: list[int], n: int, seed: int) -> torch.Tensor:
    parts = [sent(rank, n, kind.name, op) for rank in ranks]
    total = tree_reduce(op, parts, seed).clone()  # one part alone is the cached table itself
    return as_average(total, n) if op == "avg" else total


@settings(max_examples=60, deadline=None)
@given(floats, rounding_ops, world_sizes, seeds)
def test_sums_products_and_averages_in_any_order_stay_inside_the_bound(kind, op, n, seed):
    got = reduce_in_dtype(kind, op, list(range(n)), n, seed)
    assert compare(got, reduced(n, kind.name, op), 0) == (0, None)


@settings(max_examples=30, deadline=None)
@given(floats, world_sizes, seeds)
def test_averages_of_scaled_values_stay_inside_the_bound(kind, n, seed):
    """NCCL multiplies by 1/n, rounded to the dtype, before it sums."""
    factor = torch.tensor(1 / n, dtype=torch.float64).to(getattr(torch, kind.name))
    parts = [combine("prod", sent(r, n, kind.name, "avg"), factor) for r in range(n)]
    assert compare(tree_reduce("avg", parts, seed), reduced(n, kind.name, "avg"), 0)[0] == 0


@settings(max_examples=60, deadline=None)
@given(floats, rounding_ops, st.integers(2, 40), seeds, st.booleans())
def test_a_contribution_missing_or_counted_twice_is_wrong_wherever_it_counts(
    kind, op, n, seed, twice
):
    victim = seed % n
    ranks = [*range(n), victim] if twice else [r for r in range(n) if r != victim]
    got = reduce_in_dtype(kind, op, ranks, n, seed)
    own = sent(victim, n, kind.name, op).float()
    counts = int((own != (1.0 if op == "prod" else 0.0)).sum())
    assert counts > 0
    assert compare(got, reduced(n, kind.name, op), 0)[0] == counts


@settings(max_examples=60, deadline=None)
@given(floats, rounding_ops, world_sizes, st.integers(0, PERIOD - 1), st.integers(1, 100))
def test_an_element_moved_beyond_the_bound_is_caught(kind, op, n, index, ulps):
    expected = reduced(n, kind.name, op)
    got = reduce_in_dtype(kind, op, list(range(n)), n, 0)
    exact, bound = float(expected.values[index]), float(expected.tolerance[index])
    moved = exact + bound + ulps * kind.epsilon * max(abs(exact), bound, 1e-3)
    got[index] = moved
    # the dtype may round the moved value back towards the exact one: then it is inside the bound
    outside = abs(float(got[index]) - exact) > bound
    assert compare(got, expected, 0)[0] == int(outside)
    if ulps >= 2:
        assert outside


def test_a_sum_kept_in_a_narrower_type_is_caught():
    parts = [sent(rank, 8, "float32", "sum").bfloat16() for rank in range(8)]
    got = tree_reduce("sum", parts, 1).float()
    assert compare(got, reduced(8, "float32", "sum"), 0)[0] > 0.9 * PERIOD


@pytest.mark.parametrize("kind", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["sum", "prod", "avg"])
@pytest.mark.parametrize("n", [1, 2, 8, 300])
def test_partial_results_neither_overflow_nor_vanish(kind, op, n):
    total = None
    for rank in range(n):
        part = sent(rank, n, kind.name, op)
        assert torch.isfinite(part.double()).all()
        total = part if total is None else combine(op, total, part)
        assert torch.isfinite(total.double()).all()
    if op == "prod":
        assert (total.double().abs() >= 1).all()


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["sum", "prod", "avg", "min", "max"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 70])
def test_integer_partial_results_fit_in_any_order(kind, op, n):
    low = 0 if kind.name == "uint8" else -kind.max_exact_int - 1
    values = [sent(rank, n, kind.name, op).long() for rank in range(n)]
    if op == "prod":
        extreme = functools.reduce(torch.mul, [v.abs() for v in values])
    elif op in ("sum", "avg"):
        extreme = sum(v.abs() for v in values)
    else:
        extreme = functools.reduce(torch.maximum, [v.abs() for v in values])
    assert int(extreme.max()) < kind.max_exact_int
    assert all(int(v.min()) >= low for v in values)


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda d: d.name)
@pytest.mark.parametrize("op", ["sum", "prod", "avg", "min", "max"])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_integer_expectations_equal_the_reduction_in_the_dtype_itself(kind, op, n):
    parts = [sent(rank, n, kind.name, op) for rank in range(n)]
    steps = {"sum": torch.add, "avg": torch.add, "prod": torch.mul}
    step = steps.get(op) or (torch.minimum if op == "min" else torch.maximum)
    total = functools.reduce(step, parts)
    if op == "avg":
        total = total // n
    expected = reduced(n, kind.name, op)
    assert expected.tolerance is None
    assert torch.equal(total, expected.values)


@pytest.mark.parametrize("kind", list(DTYPES.values()), ids=lambda d: d.name)
@pytest.mark.parametrize("op", [None, "sum", "prod", "min", "max", "avg"])
def test_the_poison_is_never_sent_nor_expected(kind, op):
    values = [sent(rank, 4, kind.name, op) for rank in range(4)]
    if op is not None:
        values.append(reduced(4, kind.name, op).values)
    for tensor in values:
        if kind.kind == "int":
            assert int(tensor.max()) < kind.max_exact_int
        else:
            assert not torch.isnan(tensor.float()).any()


@pytest.mark.parametrize("kind", list(DTYPES.values()), ids=lambda d: d.name)
def test_data_of_another_rank_or_place_differs_almost_everywhere(kind):
    def same(a: torch.Tensor, b: torch.Tensor) -> float:
        return float((a.double() == b.double()).double().mean())

    own = sent(0, 8, kind.name, None)
    for other in range(1, 8):
        assert same(own, sent(other, 8, kind.name, None)) < 0.15  # e5m2 has 8 values
    for shift in (1, 2, 4096, 8192, PERIOD // 2):
        assert same(own, own.view(torch.uint8).roll(shift * kind.bytes).view(own.dtype)) < 0.15


@given(st.sampled_from(list(DTYPES.values())), st.sampled_from(["sum", "prod", "avg"]), world_sizes)
def test_between_one_and_all_ranks_contribute_and_more_ranks_never_less(kind, op, n):
    if kind.kind == "int" and op == "avg":
        return
    k = contributors(n, kind, op)
    assert 1 <= k <= n
    assert k <= contributors(n + 1, kind, op)


def test_every_rank_contributes_somewhere_when_not_all_can():
    n = 64
    assert contributors(n, DTYPES["bfloat16"], "sum") < n
    for rank in range(n):
        assert (sent(rank, n, "bfloat16", "sum") != 0).any()


def test_integer_averages_stop_where_their_sum_no_longer_fits():
    int8 = DTYPES["int8"]
    assert not avg_overflows(125, int8)
    assert avg_overflows(126, int8)
    assert largest_avg_base(125, int8) * 125 <= 127
    assert not avg_overflows(10**6, DTYPES["float16"])


@given(st.floats(1e-17, 0.2), st.integers(0, 50))
def test_growth_is_the_compounded_rounding(unit, count):
    assert growth(unit, count) == pytest.approx((1 + unit) ** count - 1, rel=1e-6, abs=1e-14)


def test_tables_are_the_same_in_every_process():
    """Ranks compute them apart: they must not depend on hash seeds or on the order of calls."""
    assert (
        sent(3, 8, "int32", None)[:3].tolist() == sent.__wrapped__(3, 8, "int32", None)[:3].tolist()
    )
    assert int(data._hash(0)[0]) == int(data._hash(0)[0])
    assert len({int(data._hash(stream)[0]) for stream in range(-2, 100)}) == 102
