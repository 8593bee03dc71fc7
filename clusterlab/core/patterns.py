"""Groups of ranks that localise a fault: which ranks of a placement run a collective together.

    node      the ranks of one host                       a slow host
    rail      the same local rank of every host           a slow NIC, cable or rail switch
    halves    the first and the second half of the hosts  bisection; every rank in one of two groups
    nodes:K   K hosts after one another                   a slow host or leaf among few
    groups:0-3/4-7    as written: ranks and ranges, groups parted by /

All groups of a pattern are disjoint, so they can run at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement

ALL_RANKS = "all"
PAIRS = "pairs"
PAIRS_ONE_BY_ONE = "pairs_one_by_one"

WORDS = "all, node, rail, halves, nodes:K or groups:0-3/4-7"

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that run a collective together, in rank order, and what to call them."""

    name: str
    ranks: tuple[int, ...]


def pattern_name(text: str) -> str:
    """``text`` in the one way that it is kept. Raises UsageError for a pattern that there is not."""
    word = text.strip().lower().replace("-by-", "_by_")
    if word in (ALL_RANKS, PAIRS, PAIRS_ONE_BY_ONE, *_PLAIN):
        return word
    kind, _, value = word.partition(":")
    if kind == "nodes" and value.isascii() and value.isdigit() and int(value) > 0:
        return f"nodes:{int(value)}"
    if kind == "groups":
        return "groups:" + "/".join(_text(ranks) for ranks in _written(value))
    raise UsageError(f"{text!r:.60}", where="--pattern", expected=WORDS)


def groups_of(pattern: str, placement: Placement) -> tuple[RankGroup, ...]:
    """The groups of ``pattern`` (a name as kept, not of pairs) in the order of their first ranks.

    Every rank is in one, but with ``groups:`` and where ``halves`` leaves an odd host out. Raises
    UsageError where the placement has no such groups.
    """
    kind, _, value = pattern.partition(":")
    if kind == "nodes":
        return _batches(placement, int(value))
    if kind == "groups":
        return _given(placement, value)
    return _PLAIN[kind](placement)


def _all(placement: Placement) -> tuple[RankGroup, ...]:
    return (RankGroup("all", tuple(range(placement.world_size))),)


def _nodes(placement: Placement) -> tuple[RankGroup, ...]:
    return _batches(placement, 1)


def _rails(placement: Placement) -> tuple[RankGroup, ...]:
    """By local rank: where hosts have as many GPUs as NICs that is by NIC, as ranks use the nearest."""
    rails: dict[int, list[int]] = {}
    for rank in placement.ranks:
        rails.setdefault(rank.local_rank, []).append(rank.rank)
    return tuple(RankGroup(f"rail {local}", tuple(ranks)) for local, ranks in sorted(rails.items()))


def _halves(placement: Placement) -> tuple[RankGroup, ...]:
    """By host; the ranks of one host alone are halved among themselves."""
    hosts = placement.hosts
    if len(hosts) == 1:
        n = placement.world_size
        if n < 2:
            raise UsageError(f"{n} rank", where="--pattern halves", expected="at least 2 ranks")
        middle = n - n // 2
        return (
            RankGroup(f"ranks 0–{middle - 1}", tuple(range(middle))),
            RankGroup(f"ranks {middle}–{n - 1}", tuple(range(middle, n))),
        )
    return _batches(placement, len(hosts) - len(hosts) // 2)


def _batches(placement: Placement, hosts_each: int) -> tuple[RankGroup, ...]:
    """So many hosts each, in order of first appearance; the last batch may have fewer."""
    hosts = placement.hosts
    number = {host: i // hosts_each for i, host in enumerate(hosts)}
    ranks: dict[int, list[int]] = {}
    for rank in placement.ranks:
        ranks.setdefault(number[rank.host], []).append(rank.rank)
    return tuple(
        RankGroup(_hosts_name(hosts[b * hosts_each : (b + 1) * hosts_each]), tuple(ranks[b]))
        for b in sorted(ranks)
    )


def _hosts_name(hosts: tuple[str, ...]) -> str:
    return f"host {hosts[0]}" if len(hosts) == 1 else f"hosts {hosts[0]}–{hosts[-1]}"


_PLAIN: dict[str, Callable[[Placement], tuple[RankGroup, ...]]] = {
    ALL_RANKS: _all,
    "node": _nodes,
    "rail": _rails,
    "halves": _halves,
}


def _given(placement: Placement, value: str) -> tuple[RankGroup, ...]:
    groups = _written(value)
    last = max(rank for ranks in groups for rank in ranks)
    if last >= placement.world_size:
        raise UsageError(
            f"rank {last} of {placement.world_size} ranks",
            where="--pattern groups",
            expected=f"0 to {placement.world_size - 1}",
        )
    return tuple(RankGroup(f"ranks {_text(ranks)}", ranks) for ranks in groups)


def _written(value: str) -> tuple[tuple[int, ...], ...]:
    """``0-3,8/4-7``. Raises UsageError for anything else, and for a rank named twice."""
    groups = tuple(tuple(_ranks(part)) for part in value.split("/"))
    everyone = [rank for ranks in groups for rank in ranks]
    if len(everyone) != len(set(everyone)):
        twice = next(rank for rank in everyone if everyone.count(rank) > 1)
        raise UsageError(
            f"rank {twice} twice", where="--pattern groups", expected="groups without a common rank"
        )
    return groups


def _ranks(part: str) -> Iterable[int]:
    found: list[int] = []
    for word in part.split(","):
        match = _RANGE.fullmatch(word.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(
                f"{word!r:.40}",
                where="--pattern groups",
                expected="ranks and ranges with commas, groups parted by /: 0-3/4-7",
            )
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return found


def _text(ranks: tuple[int, ...]) -> str:
    """``0-3,8``: the same ranks in the same order, in short."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)
