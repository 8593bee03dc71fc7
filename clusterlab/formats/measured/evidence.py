"""What a table's own figures prove: its collective, and how many ranks took part.

busbw over algbw is the collective's factor (core.collectives.busbw_factor), so it names the ranks; redop and
root columns, the count column and which halves are checked tell the collectives apart. Printed figures are
rounded: every conclusion holds for all values that print the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clusterlab.core.collectives import COLLECTIVES, Collective, busbw_factor
from clusterlab.core.dtypes import dtype
from clusterlab.core.errors import UsageError
from clusterlab.formats.nccl_tests import NcclTestsRow, Timing

_MOST_RANKS = 1_000_000
_EXACT = 1e-5  # of a figure that is printed with six decimals (JSON)


@dataclass(frozen=True, slots=True)
class Ratio:
    """busbw over algbw lies in here, whatever was rounded away. Empty (low > high): the rows disagree."""

    low: float
    high: float

    def holds(self, factor: float) -> bool:
        """Whether ``factor`` is possible."""
        return self.low - 1e-9 <= factor <= self.high + 1e-9

    def ranks(self, name: str) -> range:
        """The numbers of ranks, from 2, that ``name`` may have had."""
        if busbw_factor(name, 3) == 1:  # the same for any number
            return range(2, _MOST_RANKS) if self.holds(1.0) else range(0)
        top = 2.0 if name == "all_reduce" else 1.0
        low, high = (self.low - 1e-9) / top, min((self.high + 1e-9) / top, 1.0)
        if low > high or high < 0.5:
            return range(0)
        first = 2 if low < 0.5 else math.ceil(1 / (1 - low) - 1e-6) if low < 1 else _MOST_RANKS
        last = math.floor(1 / (1 - high) + 1e-6) if high < 1 - 1e-6 else _MOST_RANKS
        return range(max(2, first), min(last, _MOST_RANKS) + 1)


def ratio(timing: Timing, *, exact: bool = False) -> Ratio:
    """What one row's figures allow."""
    half_a, half_b = _half_unit(timing.algbw_GBps, exact), _half_unit(timing.busbw_GBps, exact)
    low = max(0.0, timing.busbw_GBps - half_b) / (timing.algbw_GBps + half_a)
    least = timing.algbw_GBps - half_a
    return Ratio(low, (timing.busbw_GBps + half_b) / least if least > 0 else math.inf)


def common_ratio(timings: Iterable[Timing], *, exact: bool = False) -> Ratio:
    """What all rows allow together."""
    low, high = 0.0, math.inf
    for timing in timings:
        one = ratio(timing, exact=exact)
        low, high = max(low, one.low), min(high, one.high)
    return Ratio(low, high)


def agreed_ratio(timings: Sequence[Timing], *, exact: bool = False) -> Ratio:
    """What all rows allow together, or where single ones contradict the rest, what more than half allow."""
    common = common_ratio(timings, exact=exact)
    if common.low <= common.high:
        return common
    each = [ratio(one, exact=exact) for one in timings]
    ends = sorted([(r.low, 0) for r in each] + [(r.high, 1) for r in each])
    most, at, open_now = 0, 0.0, 0
    for value, closes in ends:
        open_now += -1 if closes else 1
        if open_now > most:
            most, at = open_now, value
    if 2 * most <= len(each):
        return common
    held = [r for r in each if r.low <= at <= r.high]
    return Ratio(max(r.low for r in held), min(r.high for r in held))


def count_factor(rows: Iterable[NcclTestsRow]) -> int | None:
    """How many counts of elements the size holds: 1 where the count is the whole buffer, the number of ranks
    where it is one rank's part. None: the rows do not say, or disagree.
    """
    found: set[int] = set()
    for row in rows:
        width = _width(row.dtype)
        if width is None or not row.size_bytes or not row.count:
            continue
        parts, over = divmod(row.size_bytes, row.count * width)
        found.add(0 if over else parts)
    return found.pop() if len(found) == 1 and 0 not in found else None


def possible_collectives(
    rows: Sequence[NcclTestsRow], between: Ratio, world_size: int | None
) -> list[str]:
    """Which of the seven collectives may have printed ``rows``. One: it is proved."""
    if not rows or world_size == 1 or between.low > between.high:
        return []
    parts = count_factor(rows)
    return [
        name
        for name, what in COLLECTIVES.items()
        if _columns_fit(rows[0], what)
        and _checks_fit(rows, what)
        and (parts is None or (parts > 1) == what.per_rank)
        and (
            between.holds(busbw_factor(name, world_size))
            if world_size
            else len(between.ranks(name)) > 0
        )
    ]


def _columns_fit(row: NcclTestsRow, what: Collective) -> bool:
    """redop and root as the tool prints them. Old tools leave out the column that means nothing."""
    layout = row.layout
    if layout is None or not layout.typed:
        return layout is None or what.name != "send_recv"
    reduces = row.redop not in {None, "none"}
    if what.name != "send_recv" and reduces != what.reduces:  # its redop is sum, lately none
        return False
    return ((row.root if row.root is not None else -1) >= 0) == what.rooted


def _checks_fit(rows: Sequence[NcclTestsRow], what: Collective) -> bool:
    """nccl-tests checks alltoall and sendrecv only out of place (alltoall.cu, sendrecv.cu reportErrors)."""
    pairs = {
        (row.out_of_place.wrong == "N/A", row.in_place.wrong == "N/A")
        for row in rows
        if row.out_of_place is not None and row.in_place is not None
    }
    one_sided = what.name in {"all_to_all", "send_recv"}
    if (False, False) in pairs:
        return not one_sided
    return one_sided or (False, True) not in pairs


def _width(word: str | None) -> int | None:
    try:
        return dtype(word).bytes if word else None
    except UsageError:
        return None


def _half_unit(value: float, exact: bool) -> float:
    """Half of the last digit that is printed: two decimals as far as six characters hold them."""
    if exact:
        return max(value * _EXACT, 1e-6)
    if value < 1000:
        return 0.005
    if value < 10_000:
        return 0.05
    return 0.5 if value < 1_000_000 else 0.05 * value
