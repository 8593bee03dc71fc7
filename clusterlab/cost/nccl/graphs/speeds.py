"""The speeds NCCL's search tries, fastest first, in GB/s per channel, by version (src/graph/search.cc)."""

from __future__ import annotations

import re

_INTRA = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_SLOW = (2.4, 1.2, 0.24, 0.12)
_INTER = (
    48.0,
    30.0,
    28.0,
    24.0,
    20.0,
    18.0,
    15.0,
    12.0,
    10.0,
    9.0,
    7.0,
    6.0,
    5.0,
    4.0,
    3.0,
    *_SLOW,
)
_INTRA_90 = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
_INTER_90 = (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, *_SLOW)
_INTRA_100 = (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0)
_INTER_100_BELOW_50 = (*_INTER_90[:1], 45.1, *_INTER_90[2:])

_FIRST_45 = (2, 29)  # 45.0 joined the list inside a host of sm_100
_FIRST_96 = (2, 27, 7)  # 96.0 joined the list between hosts
_FIRST_86 = (2, 30)  # and 86.0 and 80.0 (in no release before)


def speeds(capability: int, inter: bool, version: str) -> tuple[float, ...]:
    """The list of NCCL ``version`` for GPUs of this compute capability, between hosts or inside one."""
    if capability >= 100:
        number = release(version)
        if not inter:
            return tuple(s for s in _INTRA_100 if s != 45.0 or number >= _FIRST_45)
        fast = (96.0,) if number >= _FIRST_96 else ()
        between = (86.0, 80.0) if number >= _FIRST_86 else ()
        return (*fast, *between, *_INTER_100_BELOW_50)
    if capability >= 90:
        return _INTER_90 if inter else _INTRA_90
    return _INTER if inter else _INTRA


def release(version: str) -> tuple[int, ...]:
    """``(2, 27, 5)`` of ``2.27.5+cuda12.9``; nothing found: newer than all."""
    numbers = re.match(r"\D*(\d{1,4}(?:\.\d{1,4}){0,3})", version)
    return tuple(map(int, numbers.group(1).split("."))) if numbers else (999,)
