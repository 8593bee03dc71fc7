"""The rail that a leaf's name tells, where the leaves' names prove to tell rails. Pure.

Names alone make no rail. A number in them counts once it agrees with the cables of nearly all leaves: it
then confirms a leaf of few hosts, and a whole group of hosts that contradicts it is worth a look.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

_NUMBER = re.compile(r"(\d+)")

_MOST = 0.75
"""The part of the leaves whose names must agree with their cables."""


def rails_named(of_leaf: Mapping[str, int]) -> dict[str, int]:
    """Leaf → rail by its name; empty where no number in the names, or more than one, tells the rail.

    ``of_leaf`` is what the cables say. With one leaf a rail any number would fit: then its order must be
    that of the rails.
    """
    split = {leaf: _NUMBER.split(leaf) for leaf in of_leaf}
    if len({len(parts) for parts in split.values()}) != 1:
        return {}
    width = len(next(iter(split.values())))
    found = []
    for column in range(1, width, 2):
        words = {leaf: int(parts[column]) for leaf, parts in split.items()}
        rail_of = _rail_of_word(words, of_leaf)
        if rail_of:
            found.append({leaf: rail_of[word] for leaf, word in words.items()})
    return found[0] if len(found) == 1 else {}


def _rail_of_word(words: Mapping[str, int], of_leaf: Mapping[str, int]) -> dict[int, int]:
    """Number in the names → rail, one to one; empty where it is not so on most leaves."""
    votes: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for leaf, word in words.items():
        votes[word][of_leaf[leaf]] += 1
    rail_of = {word: counts.most_common(1)[0][0] for word, counts in votes.items()}
    if len(rail_of) < 2 or sorted(rail_of.values()) != sorted(set(of_leaf.values())):
        return {}
    agreeing = sum(votes[word][rail] for word, rail in rail_of.items())
    ordered = [rail_of[word] for word in sorted(rail_of)]
    once = min(counts.total() for counts in votes.values()) < 2
    if agreeing < _MOST * len(of_leaf) or (once and ordered != sorted(ordered)):
        return {}
    return rail_of
