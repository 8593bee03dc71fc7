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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import Placement

ALL_RANKS = "all"
PAIRS = "pairs"
ONE_BY_ONE = "_one_by_one"
PAIRS_ONE_BY_ONE = PAIRS + ONE_BY_ONE

Ranks = tuple[int, ...]
Found = tuple[Ranks, ...]

WORDS = "all, node, rail, halves, nodes:K or groups:0-3/4-7"

_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that run a collective together, in the order that they count, and what to call them."""

    name: str
    ranks: tuple[int, ...]


def pattern_name(text: str, *, one_by_one: bool = False) -> str:
    """``text`` in the one way that it is kept; ``one_by_one``: its groups one after the other, not all at
    the same time. Raises UsageError for a pattern that there is not.
    """
    word = text.strip().lower().replace("-by-", "_by_")
    base = word.removesuffix(ONE_BY_ONE)
    alone = ONE_BY_ONE if one_by_one or base != word else ""
    kind, _, value = base.partition(":")
    if base == ALL_RANKS:
        return base
    if base in (PAIRS, *_PLAIN):
        return base + alone
    if kind == "nodes" and value.isascii() and value.isdigit() and 0 < int(value) < 10**9:
        return f"nodes:{int(value)}{alone}"
    if kind == "groups":
        return "groups:" + "/".join(_text(ranks) for ranks in _written(value)) + alone
    raise UsageError(f"{text!r:.60}", where="--pattern", expected=WORDS)


def is_of_groups(pattern: str) -> bool:
    """Whether ``pattern`` (a name as kept) makes groups: not all ranks, not pairs."""
    return pattern not in (ALL_RANKS, PAIRS, PAIRS_ONE_BY_ONE)


def groups_of(pattern: str, placement: Placement) -> tuple[RankGroup, ...]:
    """The groups of ``pattern`` (a name as kept, not of pairs) in the order of their first ranks.

    Every rank is in exactly one, but with ``groups:`` where it need not be in any. Raises UsageError where
    the placement has no such groups.
    """
    kind, _, value = pattern.removesuffix(ONE_BY_ONE).partition(":")
    if kind == "nodes":
        found = _batches(placement, int(value))
    elif kind == "groups":
        found = _given(placement, value)
    else:
        found = _PLAIN[kind](placement)
    return tuple(RankGroup(group_name(ranks, placement), ranks) for ranks in found)


def group_name(ranks: Ranks, placement: Placement | None) -> str:
    """What they have in common: ``host n0``, ``hosts n0–n3``, ``rail 3``, else ``ranks 0-3,8``."""
    plain = f"ranks {_text(ranks)}"
    if placement is None or max(ranks) >= placement.world_size:
        return plain
    if len(ranks) == placement.world_size:
        return "all ranks"
    mine = [placement.ranks[rank] for rank in ranks]
    hosts = list(dict.fromkeys(rank.host for rank in mine))
    if len(ranks) == sum(rank.host in set(hosts) for rank in placement.ranks):
        return _hosts_name(hosts, placement) or plain
    locals_ = {rank.local_rank for rank in mine}
    there = sum(rank.local_rank in locals_ for rank in placement.ranks)
    if len(locals_) == 1 and len(hosts) > 1 and len(ranks) == there:
        return f"rail {locals_.pop()}"
    return plain


def _hosts_name(hosts: Sequence[str], placement: Placement) -> str | None:
    """Of hosts one after another; None of others."""
    if len(hosts) == 1:
        return f"host {hosts[0]}"
    first = placement.hosts.index(hosts[0])
    together = placement.hosts[first : first + len(hosts)] == tuple(hosts)
    return f"hosts {hosts[0]}–{hosts[-1]}" if together else None


def _all(placement: Placement) -> Found:
    return (tuple(range(placement.world_size)),)


def _nodes(placement: Placement) -> Found:
    return _batches(placement, 1)


def _rails(placement: Placement) -> Found:
    """By local rank: where hosts have as many GPUs as NICs that is by NIC, as ranks use the nearest."""
    rails: dict[int, list[int]] = {}
    for rank in placement.ranks:
        rails.setdefault(rank.local_rank, []).append(rank.rank)
    return tuple(tuple(ranks) for _, ranks in sorted(rails.items()))


def _halves(placement: Placement) -> Found:
    """By host, the first half with the odd one; the ranks of one host alone are halved among themselves."""
    hosts = placement.hosts
    if len(hosts) > 1:
        return _batches(placement, len(hosts) - len(hosts) // 2)
    n = placement.world_size
    if n < 2:
        raise UsageError(f"{n} rank", where="--pattern halves", expected="at least 2 ranks")
    middle = n - n // 2
    return tuple(range(middle)), tuple(range(middle, n))


def _batches(placement: Placement, hosts_each: int) -> Found:
    """So many hosts each, in order of first appearance; the last batch may have fewer."""
    number = {host: i // hosts_each for i, host in enumerate(placement.hosts)}
    ranks: dict[int, list[int]] = {}
    for rank in placement.ranks:
        ranks.setdefault(number[rank.host], []).append(rank.rank)
    return tuple(tuple(ranks[batch]) for batch in sorted(ranks))


_PLAIN: dict[str, Callable[[Placement], Found]] = {
    ALL_RANKS: _all,
    "node": _nodes,
    "rail": _rails,
    "halves": _halves,
}


def _given(placement: Placement, value: str) -> Found:
    groups = _written(value)
    last = max(rank for ranks in groups for rank in ranks)
    if last >= placement.world_size:
        raise UsageError(
            f"rank {last} of {placement.world_size} ranks",
            where="--pattern groups",
            expected=f"0 to {placement.world_size - 1}",
        )
    return groups


def _written(value: str) -> Found:
    """``0-3,8/4-7``: torch counts a group's ranks upwards, so they are. Raises UsageError for anything
    else, and for a rank named twice.
    """
    groups = tuple(tuple(sorted(_ranks(part))) for part in value.split("/"))
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


def _text(ranks: Ranks) -> str:
    """``0-3,8``: the same ranks in the same order, in short."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 1 else f"{r[0]}" for r in runs)
