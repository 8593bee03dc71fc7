"""Digits typed by anyone to a number, however many there are: Python refuses more than 4300."""

from __future__ import annotations

MOST_DIGITS = 19
BEYOND = 10**19
"""What stands for every longer number: more than a 64-bit integer holds."""


def saturated(digits: str) -> int:
    """The number of ASCII decimal ``digits``, or BEYOND where it has more than MOST_DIGITS of them."""
    significant = digits.lstrip("0")
    if len(significant) > MOST_DIGITS:
        return BEYOND
    return int(significant or "0")
