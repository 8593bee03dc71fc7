"""What must move, whatever the algorithm: bytes across the border of a set of ranks, and in all.

Per byte of nccl-tests' size, so every figure is a share. Each element of data is followed by itself: no
schedule compresses data or codes several elements into one.
"""

from __future__ import annotations

from collections.abc import Sequence

FROM_ONE = frozenset({"broadcast", "send", "ping_pong"})
"""Everything comes from one rank; ``send`` and ``ping_pong`` begin at rank 0."""


def across(
    collective: str, n: int, inside: int, *, holds_root: bool = False, hand_offs: int = 0
) -> tuple[float, float]:
    """Shares of the size that must leave and that must enter a set of ``inside`` of n ranks.

    ``hand_offs`` are the ranks r of the set whose r+1 is outside (send_recv). Proofs, for one element:

    * all_reduce: the total is first known inside (then it must leave, as others need it) or outside
      (then something of the set's contribution must have left); mirrored for what enters. With
      reduction and multicast in the network this is all one can say.
    * reduce_scatter: an element wanted outside needs the set's contribution, one partial sum at least;
      one wanted inside needs the others'.
    * all_gather, broadcast: who lacks an element must get it; one copy may serve a whole set.
    * all_to_all, send_recv, gather, scatter: what is for one rank is of no use to another.
    """
    k, rest = inside, n - inside
    if collective == "send_recv":
        return float(hand_offs), float(hand_offs)  # a ring leaves a set as often as it enters it
    if collective in FROM_ONE:
        return (1.0, 0.0) if holds_root else (0.0, 1.0)
    return {
        "all_reduce": (1.0, 1.0),
        "reduce_scatter": (rest / n, k / n),
        "all_gather": (k / n, rest / n),
        "all_to_all": (k * rest / n, k * rest / n),
        "all_to_all_v": (k * rest / n, k * rest / n),  # of equal parts; others: uneven.py
        "gather": (0.0, rest / n) if holds_root else (k / n, 0.0),
        "scatter": (rest / n, 0.0) if holds_root else (0.0, k / n),
        "reduce": (0.0, 1.0) if holds_root else (1.0, 0.0),
    }[collective]


def bytes_across(
    collective: str, size_bytes: float, inside: Sequence[bool], root: int
) -> tuple[float, float]:
    """Bytes that must leave and that must enter the ranks r with ``inside[r]`` (some, not all)."""
    n = len(inside)
    hand_offs = sum(inside[r] and not inside[(r + 1) % n] for r in range(n))
    holds_root = inside[first_of(collective, root)]
    out, into = across(collective, n, sum(inside), holds_root=holds_root, hand_offs=hand_offs)
    return size_bytes * out, size_bytes * into


def transfers(collective: str, parties: int, *, one_rank_each: bool) -> float:
    """Share of the size that must pass between ``parties`` in all when only they combine or copy data.

    A party is a rank, or a set of ranks with whatever reduces and multicasts among them. For one element:

    * all_reduce: take the party that first knows the total. Every other one sent at least one message
      before, which carried its contribution; afterwards (a message that brought it to that party
      brought it to no other) each receives at least one: 2 (m-1) in all. Patarasuk and Yuan 2009,
      theorem 1, give the same for ranks.
    * reduce_scatter and reduce: every party but the one that wants it sends one: m-1.
    * all_gather and broadcast: every party but the one that has it receives one: m-1.
    * all_to_all: S/n for each ordered pair; send_recv: S from each rank; gather and scatter: S/n to or
      from each rank but the root. Only where a party is one rank, as how many share a party matters there.
    """
    m = parties
    if collective == "all_reduce":
        return 2.0 * (m - 1)
    if collective in ("send", "ping_pong"):
        return 1.0 if m > 1 else 0.0
    if collective in _BY_RANKS and not one_rank_each:
        return 0.0
    if collective in ("gather", "scatter"):
        return (m - 1) / m
    return float(m) if collective == "send_recv" and m > 1 else float(m - 1)


_BY_RANKS = frozenset({"all_to_all", "all_to_all_v", "gather", "scatter", "send_recv"})


def first_of(collective: str, root: int) -> int:
    """The rank that everything comes from or goes to, where there is one."""
    return 0 if collective in ("send", "ping_pong") else root
