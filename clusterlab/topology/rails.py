"""Rails as they are cabled: which leaves serve the same device of every host. Pure, on any fabric.

A leaf's rail is what most hosts on it plug into it; it takes leaves and device names, never NIC numbers
across kinds of hosts, and no names of switches. Hosts come in groups that share one leaf a rail (a rack,
a scalable unit). A cable that contradicts its leaf and its host's group is a stray.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from clusterlab.topology.fabric import Device, Fabric, Link
from clusterlab.topology.rail_classes import Attachment, Family, attachments, families

_CLEAR = 0.6
"""The part of the votes a leaf or class needs for its rail to be beyond doubt."""

_FEW = 0.2
"""More strays than this part of all cables are no mistakes: there is no pattern to stray from."""


@dataclass(frozen=True, slots=True)
class Stray:
    """A cable on the wrong leaf: its device belongs to ``rail``, its leaf serves ``found_on``.

    ``belongs_to`` is the leaf it should be on; None where the host's group has none of that rail.
    """

    cable: Attachment
    rail: int
    found_on: int
    belongs_to: str | None


@dataclass(frozen=True)
class Rails:
    """What was inferred. ``count`` is 1 where hosts show no rails; ``of_leaf`` is then empty.

    ``groups`` are leaves that share hosts, each with at most one leaf a rail, or empty where leaves of a
    rail share them freely. ``group_of_host`` counts into ``groups``. ``hosts`` are those whose kind is
    on every rail: host → rail → its cables.
    """

    count: int
    of_leaf: Mapping[str, int]
    groups: tuple[tuple[str, ...], ...]
    group_of_host: Mapping[str, int]
    hosts: Mapping[str, Mapping[int, tuple[Attachment, ...]]]
    strays: tuple[Stray, ...]

    def leaf_of(self, group: int, rail: int) -> str | None:
        """The leaf of a rail in a group; None where it has none."""
        return next((leaf for leaf in self.groups[group] if self.of_leaf.get(leaf) == rail), None)

    def missing_leaves(self) -> tuple[tuple[int, int], ...]:
        """(group, rail) of each leaf that its group lacks, where most groups have all rails."""
        lacking = [
            (group, rail)
            for group in range(len(self.groups))
            for rail in range(self.count)
            if self.leaf_of(group, rail) is None
        ]
        whole = len(self.groups) - len({group for group, _ in lacking})
        return tuple(lacking) if len(self.groups) > 2 and 2 * whole > len(self.groups) else ()


NO_RAILS = Rails(1, {}, (), {}, {}, ())


def infer_rails(fabric: Fabric) -> Rails:
    """The rails of ``fabric``; kept with it, as several checks ask."""
    found: Rails | None = fabric.memo.get("rails")
    if found is None:
        found = rails_of(attachments(fabric))
        fabric.memo["rails"] = found
    return found


def rails_of(cables: Sequence[Attachment]) -> Rails:
    """The rails that ``cables`` show."""
    known = families(cables)
    if not known or known[0].classes < 2:
        return NO_RAILS
    family_of = {host: i for i, family in enumerate(known) for host in family.hosts}
    voting = [c for c in cables if c.host in family_of]
    of_class, of_leaf, clear = _label(known, family_of, voting)
    groups, group_of_host = _groups(voting, of_leaf)
    count = len(set(of_leaf.values()))
    full = {f for f in range(len(known)) if _reaches_all(f, known[f], of_class, count)}
    hosts: defaultdict[str, defaultdict[int, list[Attachment]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for cable in voting:
        family = family_of[cable.host]
        if family in full:
            rail = of_class[family, known[family].class_of[cable.device]]
            hosts[cable.host][rail].append(cable)
    found = Rails(
        count=count,
        of_leaf=of_leaf,
        groups=groups,
        group_of_host=group_of_host,
        hosts={h: {r: tuple(c) for r, c in own.items()} for h, own in hosts.items()},
        strays=(),
    )
    strays = _strays(found, clear)
    if len(strays) > max(2, _FEW * len(voting)):
        return NO_RAILS
    return replace(found, strays=strays)


Class = tuple[int, int]
"""A family and one of its classes of devices."""


def _reaches_all(number: int, family: Family, of_class: Mapping[Class, int], count: int) -> bool:
    """Whether each class of the family has a rail and together they have all: hosts such as file servers
    are on some rails only and prove nothing about swapped cables.
    """
    rails = [of_class.get((number, c)) for c in range(family.classes)]
    return None not in rails and len(set(rails)) == count


def _label(
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
            if top[0][1] >= 2 and top[0][1] >= _CLEAR * counts.total():
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


def _groups(
    voting: Sequence[Attachment], of_leaf: Mapping[str, int]
) -> tuple[tuple[tuple[str, ...], ...], dict[str, int]]:
    """Leaves joined by many common hosts, and each host's group by most of its cables."""
    leaves_of: defaultdict[str, set[str]] = defaultdict(set)
    hosts_on: defaultdict[str, set[str]] = defaultdict(set)
    for cable in voting:
        if cable.leaf in of_leaf:
            leaves_of[cable.host].add(cable.leaf)
            hosts_on[cable.leaf].add(cable.host)
    common: Counter[tuple[str, str]] = Counter()
    for leaves in leaves_of.values():
        common.update(combinations(sorted(leaves), 2))
    joined = {leaf: leaf for leaf in hosts_on}

    def root(leaf: str) -> str:
        while joined[leaf] != leaf:
            joined[leaf] = joined[joined[leaf]]
            leaf = joined[leaf]
        return leaf

    for (a, b), count in common.items():
        if 2 * count >= min(len(hosts_on[a]), len(hosts_on[b])):
            joined[root(b)] = root(a)
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for leaf in sorted(joined, key=lambda name: (of_leaf[name], name)):
        parts[root(leaf)].append(leaf)
    if any(len({of_leaf[x] for x in part}) < len(part) for part in parts.values()):
        return (), {}
    groups = tuple(tuple(part) for part in sorted(parts.values()))
    index = {leaf: i for i, part in enumerate(groups) for leaf in part}
    homes: dict[str, int] = {}
    for host, leaves in leaves_of.items():
        home, count = Counter(index[leaf] for leaf in leaves).most_common(1)[0]
        if 2 * count > len(leaves):
            homes[host] = home
    return groups, homes


def _strays(rails: Rails, clear: frozenset[str]) -> tuple[Stray, ...]:
    """Cables on a leaf of another rail, of hosts that otherwise follow the pattern of their group."""
    found: list[Stray] = []
    for host, own in rails.hosts.items():
        off = [
            Stray(cable, rail, rails.of_leaf[cable.leaf], _home(rails, host, rail))
            for rail, cables in own.items()
            for cable in cables
            if cable.leaf in clear and rails.of_leaf[cable.leaf] != rail
        ]
        total = sum(map(len, own.values()))
        permuted = sorted(s.rail for s in off) == sorted(s.found_on for s in off)
        if off and (2 * len(off) <= total or permuted):
            found += off
    return tuple(found)


def _home(rails: Rails, host: str, rail: int) -> str | None:
    group = rails.group_of_host.get(host)
    return None if group is None else rails.leaf_of(group, rail)


def with_rails(fabric: Fabric) -> Fabric:
    """``fabric`` with the inferred rails on leaves, on the NICs plugged into them and on those cables."""
    rails = infer_rails(fabric)
    if not rails.of_leaf:
        return fabric
    of_nic: defaultdict[str, set[int]] = defaultdict(set)
    for link in fabric.links:
        if link.dst in rails.of_leaf and fabric.device(link.src).kind == "nic":
            of_nic[link.src].add(rails.of_leaf[link.dst])
    known = {**rails.of_leaf} | {nic: min(own) for nic, own in of_nic.items() if len(own) == 1}
    skip = {d.name for d in fabric.of_kind("nic") if d.role == "aggregation"}

    def of_device(device: Device) -> Device:
        rail = known.get(device.name)
        return device if rail is None or device.name in skip else replace(device, rail=rail)

    def of_link(link: Link) -> Link:
        rails_met = {known.get(link.src), known.get(link.dst)}
        outside = {link.src, link.dst} & rails.of_leaf.keys() and {
            link.src,
            link.dst,
        } & of_nic.keys()
        rail = rails_met.pop() if outside and len(rails_met) == 1 else None
        return link if rail is None else replace(link, rail=rail)

    labelled = replace(
        fabric,
        devices=tuple(map(of_device, fabric.devices)),
        links=tuple(map(of_link, fabric.links)),
    )
    labelled.memo["rails"] = rails
    return labelled
