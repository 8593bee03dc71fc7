"""Rails as they are cabled: which leaves serve the same device of every host. Pure, on any fabric.

A leaf's rail is what most hosts on it plug into it; it takes leaves and device names, never NIC numbers
across kinds of hosts. Names of switches only confirm the rails of leaves with few hosts. Hosts come in
groups that share one leaf a rail (a rack, a scalable unit). A cable that contradicts its leaf and its
host's group is a stray.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, Link
from clusterlab.topology.rails.classes import (
    Attachment,
    Family,
    attachments,
    families,
    storage_nics,
)
from clusterlab.topology.rails.labels import label, reaches_all, without_storage
from clusterlab.topology.rails.leaf_names import rails_named

_FEW, _FEW_APART = 0.1, 0.03
"""More cables than this part off their rail are no mistakes: there is no pattern to stray from."""

_FEWEST_TELL = 3
"""Cables that a host must have before the rest of them tell where one belongs."""

_FEWEST_NAMED, _FEW_NAMED = 4, 0.2
"""How many rails must be named in order, and what part of the cables may then be off their rail."""

_TOGETHER = 0.8
"""The part of the hosts' leaves that must be in their own groups for the groups to mean something."""

_STRANGE = 0.2
"""The part of the hosts that may be cabled unlike all others."""


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
    found: Rails | None = fabric.memo.get("inferred rails")
    if found is None:
        storage = {link.dst for nic in storage_nics(fabric) for link in fabric.links_from(nic)}
        found = rails_of(attachments(fabric), storage_leaves=storage)
        fabric.memo["inferred rails"] = found
    return found


def rails_of(cables: Sequence[Attachment], *, storage_leaves: Set[str] = frozenset()) -> Rails:
    """The rails that ``cables`` show. ``storage_leaves`` are those with a storage host: devices that are
    plugged into such leaves only are on the storage network, not on a rail.
    """
    cables = without_storage(cables, storage_leaves)
    known = families(cables)
    if not known or known[0].classes == len(known[0].class_of):
        return _rails_of(cables, known)
    # Among three hosts a swap makes one class of two rails; names in the rails' order tell them apart.
    apart = _rails_of(cables, families(cables, apart=True))
    off = sum(_off(apart, own) for own in apart.hosts.values())
    count = sum(len(cs) for own in apart.hosts.values() for cs in own.values())
    told = apart.count >= _FEWEST_NAMED and rails_named(apart.of_leaf) == apart.of_leaf
    sure = told and len(apart.hosts) > 2 and off <= _FEW_NAMED * count
    return apart if sure else _rails_of(cables, known)


def _rails_of(cables: Sequence[Attachment], known: Sequence[Family]) -> Rails:
    """The rails of ``cables`` with the hosts' devices in these classes."""
    if not known or known[0].classes < 2:
        return NO_RAILS
    family_of = {host: i for i, family in enumerate(known) for host in family.hosts}
    voting = [c for c in cables if c.host in family_of]
    of_class, of_leaf, clear = label(known, family_of, voting)
    told = rails_named(of_leaf)
    clear |= {leaf for leaf, rail in told.items() if of_leaf[leaf] == rail}
    groups, group_of_host = _groups(voting, of_leaf)
    count = len(set(of_leaf.values()))
    full = {f for f in range(len(known)) if reaches_all(f, known[f], of_class, count)}
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
    strange = {
        h for h, own in found.hosts.items() if 2 * _off(found, own) > sum(map(len, own.values()))
    }
    if not _is_pattern(found, strange):
        return NO_RAILS
    strays = _strays(found, clear)
    apart = strange - {s.cable.host for s in strays}
    kept = {host: own for host, own in found.hosts.items() if host not in apart}
    return replace(found, hosts=kept, strays=strays)


def _is_pattern(rails: Rails, strange: Set[str]) -> bool:
    """Whether nearly all cables of hosts that are on every rail agree with their leaves.

    Without groups of leaves that belong together chance agrees more easily, so more is asked. A few hosts
    that have the devices of the others and none of their cabling are something else (login, management).
    """
    if len(strange) > _STRANGE * len(rails.hosts):
        return False
    few = sum(_off(rails, own) for host, own in rails.hosts.items() if host not in strange)
    cables = sum(len(cs) for own in rails.hosts.values() for cs in own.values())
    return cables > 0 and few <= (max(2, _FEW * cables) if rails.groups else _FEW_APART * cables)


def _off(rails: Rails, own: Mapping[int, Sequence[Attachment]]) -> int:
    """How many of a host's cables are on a leaf of another rail or of none."""
    return sum(rails.of_leaf.get(c.leaf) != rail for rail, cs in own.items() for c in cs)


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
    whole = sum(2 * len(part) > len(set(of_leaf.values())) for part in parts.values())
    twice = any(len({of_leaf[x] for x in part}) < len(part) for part in parts.values())
    if twice or 2 * whole < len(parts):
        return (), {}
    groups = tuple(tuple(part) for part in sorted(parts.values()))
    index = {leaf: i for i, part in enumerate(groups) for leaf in part}
    homes: dict[str, int] = {}
    inside = 0
    for host, leaves in leaves_of.items():
        home, count = Counter(index[leaf] for leaf in leaves).most_common(1)[0]
        inside += count
        if 2 * count > len(leaves):
            homes[host] = home
    if inside < _TOGETHER * sum(map(len, leaves_of.values())):
        return (), {}
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


def foreign_cables(rails: Rails) -> tuple[Stray, ...]:
    """Cables on the right rail in another group of hosts: of hosts that are else in one group, whose own
    leaf of that rail is there. Nothing where so many are that it must be meant.
    """
    group_of_leaf = {leaf: i for i, leaves in enumerate(rails.groups) for leaf in leaves}
    found: list[Stray] = []
    for host, own in rails.hosts.items():
        home = rails.group_of_host.get(host)
        cables = [(rail, cable) for rail, several in own.items() for cable in several]
        away = [
            Stray(cable, rail, rail, _home(rails, host, rail))
            for rail, cable in cables
            if home is not None
            and rails.of_leaf.get(cable.leaf) == rail
            and group_of_leaf.get(cable.leaf, home) != home
        ]
        if len(cables) >= _FEWEST_TELL and len(away) <= max(1, len(cables) // 4):
            found += [stray for stray in away if stray.belongs_to is not None]
    total = sum(len(cs) for own in rails.hosts.values() for cs in own.values())
    return tuple(found) if len(found) <= max(2, _FEW_APART * total) else ()


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
    labelled.memo["inferred rails"] = rails
    return labelled
