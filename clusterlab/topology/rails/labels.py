"""Which rail each class of devices and each leaf is on, by the votes of the hosts plugged in. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set

from clusterlab.topology.rails.classes import Attachment, Family, families

_CLEAR = 0.6
"""The part of a class's cables that must be on one rail's leaves (or on storage leaves)."""

_VOTES, _CLEAR_LEAF = 3, 0.7
"""How many hosts must agree on a leaf's rail, and what part of them, before a cable on it is a stray."""


def without_storage(cables: Sequence[Attachment], storage_leaves: Set[str]) -> Sequence[Attachment]:
    """The cables but those of device classes that live on storage leaves, where others do not."""
    left_out: set[tuple[str, str]] = set()
    for family in families(cables):
        own = [c for c in cables if c.host in family.hosts]
        count = Counter(family.class_of[c.device] for c in own)
        on_storage = Counter(family.class_of[c.device] for c in own if c.leaf in storage_leaves)
        storage = {c for c in count if on_storage[c] >= _CLEAR * count[c]}
        if 2 * len(storage) < family.classes:
            left_out |= {(c.host, c.device) for c in own if family.class_of[c.device] in storage}
    return [c for c in cables if (c.host, c.device) not in left_out] if left_out else cables


Class = tuple[int, int]
"""A family and one of its classes of devices."""


def reaches_all(number: int, family: Family, of_class: Mapping[Class, int], count: int) -> bool:
    """Whether each class of the family has a rail and together they have all: hosts such as file servers
    are on some rails only and prove nothing about swapped cables.
    """
    rails = [of_class.get((number, c)) for c in range(family.classes)]
    return None not in rails and len(set(rails)) == count


def label(
    known: Sequence[Family], family_of: Mapping[str, int], voting: Sequence[Attachment]
) -> tuple[dict[Class, int], dict[str, int], frozenset[str]]:
    """Rails of classes and of leaves, and the leaves whose rail is beyond doubt.

    The largest family numbers the rails. Another family's class takes the rail of the leaves it shares
    with it; one with leaves of its own and as many classes is numbered alike, any other has no rails.
    """
    votes: defaultdict[str, defaultdict[int, Counter[int]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for cable in voting:
        family = family_of[cable.host]
        votes[cable.leaf][family][known[family].class_of[cable.device]] += 1
    of_class: dict[Class, int] = {(0, c): c for c in range(known[0].classes)}
    of_leaf: dict[str, int] = {}
    clear: set[str] = set()
    for family in range(len(known)):
        mine = {leaf: counts[family] for leaf, counts in votes.items() if family in counts}
        if family:
            of_class |= _mapped(family, known, mine, of_leaf)
        for leaf, counts in mine.items():
            top = counts.most_common(2)
            rail = of_class.get((family, top[0][0]))
            tied = len(top) > 1 and top[0][1] == top[1][1]
            if leaf in of_leaf or rail is None or tied:
                continue
            of_leaf[leaf] = rail
            if top[0][1] >= _VOTES and top[0][1] >= _CLEAR_LEAF * counts.total():
                clear.add(leaf)
    return of_class, of_leaf, frozenset(clear)


def _mapped(
    family: int,
    known: Sequence[Family],
    mine: Mapping[str, Counter[int]],
    of_leaf: Mapping[str, int],
) -> dict[Class, int]:
    """The rails of a family's classes, by the leaves it shares with families before it."""
    seen: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for leaf, counts in mine.items():
        if leaf in of_leaf:
            for device_class, count in counts.items():
                seen[device_class][of_leaf[leaf]] += count
    if not seen:
        alike = known[family].classes == known[0].classes
        return {(family, c): c for c in range(known[family].classes)} if alike else {}
    found = {}
    for device_class, counts in seen.items():
        rail, count = counts.most_common(1)[0]
        if count >= _CLEAR * counts.total():
            found[family, device_class] = rail
    return found
