"""Figures that no measurement gives: what is no time of a call, what no GPU's links carry. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence

SHORTEST_US = 0.1
"""Light goes 30 m meanwhile; the fastest collective of two GPUs takes some microseconds."""

LONGEST_US = 3.6e9
"""An hour for one call: 16 GiB take 20 minutes at 0.1 Gb/s."""

FASTEST_GBps = 3600.0
"""NVLink 6 carries 1800 GB/s each way of a GPU; a switch that reduces at most doubles busbw."""

_SHOWN = 4


def doubt(
    time_us: float,
    busbw_GBps: float | None = None,
    algbw_GBps: float | None = None,
    *,
    moves: bool = True,
) -> str | None:
    """Why a row with this time and these bandwidths was not measured; None for one that may have been.

    ``moves``: data has a way to go. A call for nothing, or of one rank, may take no time at all.
    """
    if not 0 < time_us <= LONGEST_US or (moves and time_us < SHORTEST_US):
        return f"a time of {time_us:g} µs" if time_us else "a time of 0"
    fastest = FASTEST_GBps if moves else sys.float_info.max
    if busbw_GBps is not None and not 0 <= busbw_GBps <= fastest:
        return f"a busbw of {busbw_GBps:g} GB/s"
    # Of no collective is algbw above twice busbw (all_gather of two ranks).
    if algbw_GBps is not None and not 0 <= algbw_GBps / 2 <= fastest:
        return f"an algbw of {algbw_GBps:g} GB/s"
    return None


LIMITS = f"a time from {SHORTEST_US:g} µs to {LONGEST_US / 3.6e9:g} h and a busbw to {FASTEST_GBps:g} GB/s"
"""What a row needs to count, in words."""


def named(doubts: Sequence[tuple[int, str]], what: str = "line") -> str:
    """The first few rows and what is wrong with each: ``line 7: a time of 0; line 9: …``."""
    shown = "; ".join(f"{what} {at}: {why}" for at, why in doubts[:_SHOWN])
    return shown + ("; …" if len(doubts) > _SHOWN else "")
