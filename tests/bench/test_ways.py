"""Calls in turn and in groups: every place is used, as often as any other."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from clusterlab.bench.ways import in_groups, rotated


@given(st.integers(1, 80), st.integers(1, 300))
def test_places_take_turns(places, calls):
    seen = []
    call = rotated([lambda i=i: seen.append(i) for i in range(places)])
    for _ in range(calls):
        call()
    assert seen == [i % places for i in range(calls)]


@given(st.integers(1, 80), st.integers(1, 20))
def test_groups_have_their_size_and_leave_no_place_out(places, many):
    groups = in_groups(list(range(places)), many)
    assert all(len(group) == many for group in groups)
    flat = [i for group in groups for i in group]
    assert flat == [i % places for i in range(len(flat))]
    counted = Counter(flat)
    assert set(counted) == set(range(places))
    assert len(flat) < places + many
