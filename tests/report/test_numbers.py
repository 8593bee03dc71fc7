"""Numbers for people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterlab.report.numbers import percent, ratio, three_digits


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (0.0, "0"),
        (0.0012345, "0.00123"),
        (0.9996, "1.00"),
        (12.345, "12.3"),
        (479.9, "480"),
        (12345.6, "12,300"),
        (-2.5, "-2.50"),
    ],
)
def test_three_significant_digits_without_exponent(value: float | None, text: str) -> None:
    assert three_digits(value) == text


@given(st.floats(1e-9, 1e12))
def test_no_number_is_shown_more_than_half_a_percent_off(value: float) -> None:
    assert float(three_digits(value).replace(",", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [
        (0.083, False, "8.3 %"),
        (0.083, True, "+8.3 %"),
        (-0.5, True, "-50.0 %"),
        (12.0, True, "+1,200 %"),
        (None, True, "–"),
        (math.nan, False, "–"),
    ],
)
def test_percentages(value: float | None, signed: bool, text: str) -> None:
    assert percent(value, signed=signed) == text


def test_ratios() -> None:
    assert [ratio(x) for x in (0.9749, None, math.inf)] == ["0.97", "–", "–"]
