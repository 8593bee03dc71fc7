from __future__ import annotations

from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.core.uneven import matrix_name, parts, uneven_name

small = st.integers(1, 9)
shares = st.integers(0, 20).map(lambda f: f"hot:{f / 20:g}")
seeds = st.integers(0, 999).map(lambda s: f"random:{s}")


@st.composite
def matrices(draw: st.DrawFn) -> str:
    n = draw(st.integers(1, 7))
    row = st.lists(st.integers(0, 50), min_size=n, max_size=n)
    return matrix_name(
        draw(st.lists(row, min_size=n, max_size=n).filter(lambda m: any(map(any, m))))
    )


def _lines(matrix: tuple[tuple[int, ...], ...]) -> list[int]:
    return [*map(sum, matrix), *map(sum, zip(*matrix, strict=True))]


def _check(name: str, n: int, elements: int) -> None:
    found = parts(name, n, elements)
    assert len(found) == n
    assert all(len(row) == n for row in found)
    assert all(part >= 0 for row in found for part in row)
    # what "size" means: the busiest rank has exactly so much, nobody more
    assert max(_lines(found)) == elements
    # and the shape is kept: no part is further than an element from its share
    exact = parts(name, n, elements * 10**6)
    for row, fine in zip(found, exact, strict=True):
        for part, share in zip(row, fine, strict=True):
            assert abs(part - share / 10**6) <= 1 + 1e-6


@given(st.one_of(st.just("linear"), shares, seeds), small, st.integers(1, 10**6))
def test_the_busiest_rank_has_the_size_and_every_part_its_share(name, n, elements):
    _check(name, n, elements)


@given(matrices(), st.integers(1, 10**6))
def test_so_it_is_of_any_matrix(name, elements):
    _check(name, name.count("/") + 1, elements)


@given(small, st.integers(1, 10**5))
def test_linear_sends_and_receives_the_size_on_every_rank(n, elements):
    found = parts("linear", n, elements)
    assert set(_lines(found)) == {elements}
    for i, row in enumerate(found):  # the same on all ranks, by distance: nccl-tests' pattern
        assert [row[(i + k) % n] for k in range(n)] == list(found[0])
    if n > 1:
        most = n * (n - 1) // 2
        assert all(abs(found[0][k] - elements * k / most) <= 1 for k in range(n))


def test_hot_gives_rank_0_its_share_of_every_rank():
    found = parts("hot:0.5", 4, 1200)
    # four ranks send half of what each has to rank 0, which so has 1200 to receive
    assert [row[0] for row in found] == [300] * 4
    assert all(part == 100 for row in found for part in row[1:])


def test_a_matrix_of_the_size_itself_is_taken_as_it_is():
    rows = ((100, 200, 150), (50, 100, 75), (300, 150, 200))
    assert parts(matrix_name(rows), 3, max(_lines(rows))) == rows
    # and of a larger one the first ranks, as nccl-tests does
    assert parts(matrix_name(rows), 2, 300) == ((100, 200), (50, 100))


@given(seeds, small)
def test_the_same_name_is_the_same_parts(name, n):
    parts.cache_clear()
    first = parts(name, n, 1000)
    parts.cache_clear()
    assert parts(name, n, 1000) == first


def test_seeds_differ():
    assert parts("random:1", 4, 1000) != parts("random:2", 4, 1000)


@pytest.mark.parametrize(
    ("typed", "kept"),
    [("Linear", "linear"), ("hot:0.50", "hot:0.5"), ("random:007", "random:7"),
     ("matrix:2 4/6 8", "matrix:1 2/3 4"), (" hot:1 ", "hot:1")],
)  # fmt: skip
def test_names_are_kept_in_one_way(typed, kept):
    assert uneven_name(typed) == kept
    assert uneven_name(kept) == kept


@pytest.mark.parametrize(
    "typed",
    ["", "liner", "hot", "hot:1.5", "hot:-1", "hot:nan", "hot:x", "random:", "random:-1", "random:1.5",
     "matrix:", "matrix:1 2/3", "matrix:1 -2/3 4", "matrix:0", "matrix:a", "linear:2"],
)  # fmt: skip
def test_other_names_are_refused(typed):
    with pytest.raises(UsageError):
        uneven_name(typed)


def test_a_matrix_for_fewer_ranks_is_refused():
    with pytest.raises(UsageError, match="a matrix of 2 ranks for 3"):
        parts("matrix:1 2/3 4", 3, 8)


def test_a_matrix_whose_first_ranks_send_nothing_is_refused():
    with pytest.raises(UsageError, match="sends nothing among 1"):
        parts("matrix:0 2/3 4", 1, 8)


@given(small, st.integers(1, 1000), st.integers(0, 20))
def test_hot_shares_are_what_is_asked_for(n, elements, twentieths):
    found = parts(f"hot:{twentieths / 20:g}", n, 1000 * elements)
    sent = floor(sum(map(sum, found)))
    to_hot = sum(row[0] for row in found)
    if n > 1:
        assert abs(to_hot - sent * twentieths / 20) <= 2 * n
