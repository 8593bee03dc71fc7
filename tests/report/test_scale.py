"""Axes hold every value, and their ticks are few, round and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.report.scale import Axis, ratio_axis, size_axis, value_axis

bandwidths = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=30)


def check(axis: Axis) -> None:
    values = [tick.value for tick in axis.ticks]
    assert values == sorted(set(values))
    assert 1 <= len(values) <= 11
    assert all(axis.low <= v <= axis.high for v in values)
    assert len({tick.label for tick in axis.ticks}) == len(values)


@given(bandwidths)
def test_every_bandwidth_lies_on_its_axis(values: list[float]) -> None:
    axis = value_axis(values)
    check(axis)
    shares = [axis.share(v) for v in sorted(values)]
    assert all(0 <= s <= 1 for s in shares)
    assert shares == sorted(shares)
    assert axis.low <= min(values)
    assert max(values) <= axis.high * (1 + 1e-9)


@given(st.lists(st.integers(1, 1 << 45), min_size=1, max_size=40))
def test_every_size_lies_on_its_axis(sizes: list[int]) -> None:
    axis = size_axis(sizes)
    if max(sizes) >= 4 * min(sizes):
        check(axis)
    assert axis.share(min(sizes)) <= axis.share(max(sizes))


@given(st.lists(st.floats(0.011, 99), min_size=1, max_size=30))
def test_a_ratio_axis_has_one_in_its_middle(ratios: list[float]) -> None:
    axis = ratio_axis(ratios)
    check(axis)
    assert axis.share(1.0) == pytest.approx(0.5)
    assert "1" in [tick.label for tick in axis.ticks]
    assert axis.low <= min(ratios)
    assert max(ratios) <= axis.high


def test_a_wide_range_is_logarithmic_and_a_narrow_one_begins_at_zero() -> None:
    assert value_axis([0.02, 400.0]).logarithmic
    narrow = value_axis([40.0, 400.0])
    assert not narrow.logarithmic
    assert [t.label for t in narrow.ticks] == ["0", "100", "200", "300", "400", "500"]


def test_size_ticks_are_powers_of_two_named_as_people_do() -> None:
    axis = size_axis([1024, 4096, 1 << 24])
    assert [t.label for t in axis.ticks][:2] == ["1 KiB", "4 KiB"]
    assert axis.ticks[-1].label == "16 MiB"


def test_no_values_still_make_an_axis() -> None:
    check(value_axis([]))
    check(value_axis([0.0, 0.0]))
    assert ratio_axis([]).share(1.0) == pytest.approx(0.5)
