import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.core.errors import UsageError
from clusterlab.cost.placing.pattern import COLLECTIVE_OF, groups_of, read_pattern


def test_the_first_axis_varies_fastest_and_the_open_one_takes_what_is_left() -> None:
    tp, dp = read_pattern("tp8,dp:1G*4", 32)
    assert (tp.width, tp.stride, tp.collective) == (8, 1, "all_reduce")
    assert (dp.width, dp.stride, dp.size_bytes, dp.calls) == (4, 8, 1 << 30, 4)
    assert groups_of(tp, 32)[1] == tuple(range(8, 16))
    assert groups_of(dp, 32)[3] == (3, 11, 19, 27)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.permutations(sorted(COLLECTIVE_OF)),
)
def test_every_axis_parts_all_ranks_and_two_ranks_meet_in_one_group_at_most(
    widths: list[int], names: list[str]
) -> None:
    ranks = 1
    for width in widths:
        ranks *= width
    text = ",".join(f"{name}{width}" for name, width in zip(names, widths, strict=False))
    seen: set[tuple[int, int]] = set()
    for axis in read_pattern(text, ranks):
        groups = groups_of(axis, ranks)
        assert sorted(rank for group in groups for rank in group) == list(range(ranks))
        pairs = {(a, b) for group in groups for a in group for b in group if a < b}
        assert not pairs & seen
        seen |= pairs


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "axes such as"), ("tp8,tp2", "each axis once"), ("tpp8", "did you mean"),
        ("tp3,dp", "divides 16"), ("tp8,dp4", "is 16"), ("tp,dp", "a width for all"),
        ("tp0,dp", "at least 1"), ("dp:x", "not a size"), ("dp*0", "at least 1 call"), ("8tp", "an axis"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(text: str, word: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_pattern(text, 16)
    assert word in str(caught.value)
    assert "--pattern" in str(caught.value)
