"""Executable rounds: which block goes where, round by round.

A schedule says how much flows; rounds say *what*, so that running them proves that the data arrives and
that counts are right. Used by the tests, and by whoever wants to watch an algorithm.

End points below the number of ranks are ranks. Above come switches that reduce and multicast
(``GroupShape.nvswitch_of``, ``GroupShape.network``): they hold nothing between rounds. What ranks send
into a switch in a round is combined there, and transfers out of it in the same round carry the result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """Block ``block`` goes from ``src`` to ``dst``; ``reduces``: it is combined with the one there."""

    src: int
    dst: int
    block: int
    reduces: bool = False


Round = list[Transfer]
