"""How near devices are, pair by pair, to one PCI tree: switches, host bridges, NUMA domains.

In a tree the two larger of any three distances are equal. Where a matrix breaks that, the cells that
most other devices contradict are set aside, the rest is joined from the nearest pair up, and every
cell that the tree does not repeat is returned: nothing is smoothed over in silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from clusterlab.topology.parts import Device, DeviceKind, Link, LinkClass

PIX, PXB, PHB, NODE, SYS = range(1, 6)
LEVELS: dict[str, int] = {"PIX": PIX, "PXB": PXB, "PHB": PHB, "NODE": NODE, "SYS": SYS}
"""nvidia-smi's words for distance: one PCI switch, several, one host bridge, one NUMA node, beyond."""

_WITNESSES = 2  # so many other devices must contradict a cell, and most of those that can tell

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A pair of devices whose stated level (1 PIX to 5 SYS) is not the one in the tree."""

    pair: Pair
    said: int
    placed: int


@dataclass(frozen=True)
class PciTree:
    """The devices between the given ends, the links, and what did not fit.

    ``numa``: the NUMA node of every end, given or that of its cpu. ``unplaced``: ends of which nothing
    says where they are, left without a path. ``numa_conflicts``: groups of ends whose NUMA numbers and
    levels disagree.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    numa: Mapping[str, int | None]
    unplaced: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]
    numa_conflicts: tuple[str, ...]


def build_pci_tree(
    host: str,
    numa: Mapping[str, int | None],
    levels: Mapping[Pair, int],
    *,
    host_bridges: bool = True,
    weaker: Collection[str] = (),
) -> PciTree:
    """The tree over the devices of ``numa`` (name to NUMA node or None) that repeats ``levels``.

    A pair without a level is unknown. ``host_bridges`` False: the levels tell only whether two devices
    share a NUMA domain, so ends hang on their cpu. An end whose place below its cpu nothing tells does
    so too. What two ``weaker`` ends say of each other yields to what the others say of both.
    """
    names = list(numa)
    said = _table(names, levels)
    trusted = _without_outvoted(_without_weaker(said, [name in weaker for name in names]))
    groups = [_joined(trusted, level) for level in range(PIX, SYS)]
    contradictions = _contradictions(names, said, groups)
    builder = _Builder(host, names, numa, groups, trusted)
    builder.build(host_bridges=host_bridges)
    return PciTree(
        devices=tuple(builder.devices),
        links=tuple(builder.links),
        numa=builder.numa,
        unplaced=tuple(builder.unplaced),
        contradictions=contradictions,
        numa_conflicts=tuple(builder.conflicts),
    )


def both_ways(
    a: str,
    b: str,
    link_class: LinkClass,
    *,
    wire_GBps: float | None = None,
    wire_source: str = "",
    multiplicity: int = 1,
) -> tuple[Link, Link]:
    """A connection as its two directed links; what software gets of it is unknown."""
    link = Link(
        a,
        b,
        link_class,
        GBps=None,
        multiplicity=multiplicity,
        wire_GBps=wire_GBps,
        wire_source=wire_source,
    )
    return link, replace(link, src=b, dst=a)


Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def _table(names: Sequence[str], levels: Mapping[Pair, int]) -> Table:
    place = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    for (a, b), level in levels.items():
        table[place[a], place[b]] = table[place[b], place[a]] = level
    return table


def _without_outvoted(said: Table) -> Table:
    """``said`` without the cells that most other devices contradict."""
    return np.where(_outvoted(said, range(len(said))), np.nan, said)


def _without_weaker(said: Table, weak: Sequence[bool]) -> Table:
    """``said`` without the cells between two weak devices that most of the strong ones contradict."""
    outvoted = _outvoted(said, [k for k, is_weak in enumerate(weak) if not is_weak])
    return np.where(outvoted & np.logical_and.outer(weak, weak), np.nan, said)


def _outvoted(
    said: Table, witnesses: Iterable[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The cells that most of the witnesses contradict.

    Device k tells about the pair (i, j): where its distances to i and j differ, theirs is the larger of
    the two; where they are equal, theirs is at most that.
    """
    against = np.zeros(said.shape)
    for_it = np.zeros(said.shape)
    for k in witnesses:
        a, b = said[:, k, None], said[None, k, :]
        known = ~np.isnan(a) & ~np.isnan(b) & ~np.isnan(said)
        larger = np.maximum(a, b)
        wrong = np.where(a == b, said > larger, said != larger)
        against += known & wrong
        for_it += known & ~wrong
    return (against > for_it) & (against >= _WITNESSES)


def _joined(table: Table, level: int) -> list[int]:
    """For each device the first member of its group: those linked by pairs at ``level`` or nearer."""
    group = list(range(len(table)))
    near = table <= level
    for i in range(len(group)):
        for j in np.flatnonzero(near[i, :i]):
            old, new = max(group[i], group[j]), min(group[i], group[j])
            if old != new:
                group = [new if g == old else g for g in group]
    return group


def _contradictions(
    names: Sequence[str], said: Table, groups: Sequence[Sequence[int]]
) -> tuple[Contradiction, ...]:
    found = []
    for i, j in zip(*np.nonzero(~np.isnan(said)), strict=True):
        if i >= j:
            continue
        placed = next((lv for lv, g in enumerate(groups, PIX) if g[i] == g[j]), SYS)
        if placed != said[i, j]:
            found.append(Contradiction((names[i], names[j]), int(said[i, j]), placed))
    return tuple(found)


class _Builder:
    """Names and links the switches, host bridges and cpus of one host, in the order of its devices."""

    def __init__(
        self,
        host: str,
        names: Sequence[str],
        numa: Mapping[str, int | None],
        groups: Sequence[Sequence[int]],
        trusted: Table,
    ) -> None:
        self.host = host
        self.names = names
        self.numa = dict(numa)
        self.groups = groups
        self.trusted = trusted
        self.devices: list[Device] = []
        self.links: list[Link] = []
        self.unplaced: list[str] = []
        self.conflicts: list[str] = []
        self._count: dict[str, int] = {}

    def build(self, *, host_bridges: bool) -> None:
        domains = self._domains()
        numbers = [number for _, number in domains]
        numbered = len(set(numbers)) == len(numbers) and None not in numbers
        for position, (members, number) in enumerate(domains):
            index = number if numbered and number is not None else position
            cpu = f"{self.host}/cpu{index}"
            self.devices.append(Device(cpu, "cpu", host=self.host, numa=number))
            for i in members:
                if self.numa[self.names[i]] is None:
                    self.numa[self.names[i]] = number
            self._below_cpu(members, cpu, number, host_bridges=host_bridges)
        cpus = [d.name for d in self.devices if d.kind == "cpu"]
        for k, a in enumerate(cpus):
            for b in cpus[k + 1 :]:
                self.links += both_ways(a, b, "upi")

    def _domains(self) -> list[tuple[list[int], int | None]]:
        """Members of each NUMA domain and its number; None: unknown, or contradicted by the levels."""
        parts = _by_group(range(len(self.names)), self.groups[NODE - 1])
        stated = [self._stated(part) for part in parts]
        merged: list[tuple[list[int], int | None]] = []
        done: set[int] = set()
        for p, (part, numbers) in enumerate(zip(parts, stated, strict=True)):
            if p in done:
                continue
            same = [q for q in range(p, len(parts)) if numbers and stated[q] == numbers]
            if len(numbers) > 1:
                self._conflict(part, f"nearer than NODE across NUMA nodes {_listed(numbers)}")
                merged.append((part, None))
            elif len(same) > 1 and self._far_apart([parts[q] for q in same]):
                everyone = [i for q in same for i in parts[q]]
                self._conflict(everyone, f"SYS within NUMA node {_listed(numbers)}")
                merged += [(parts[q], None) for q in same]
                done.update(same)
            elif len(same) > 1:
                merged.append((sorted(i for q in same for i in parts[q]), min(numbers)))
                done.update(same)
            elif numbers or not self._alone(part):
                merged.append((part, min(numbers) if numbers else None))
            else:
                self.unplaced.append(self.names[part[0]])
        return merged

    def _stated(self, part: Sequence[int]) -> set[int]:
        return {n for i in part if (n := self.numa[self.names[i]]) is not None}

    def _conflict(self, members: Iterable[int], said: str) -> None:
        self.conflicts.append(f"{', '.join(self.names[i] for i in members)}: {said}")

    def _far_apart(self, parts: Sequence[Sequence[int]]) -> bool:
        """Whether any pair of two different ``parts`` is known (then it is SYS)."""
        return any(
            bool((self.trusted[np.ix_(a, b)] == SYS).any())
            for k, a in enumerate(parts)
            for b in parts[k + 1 :]
        )

    def _alone(self, part: Sequence[int]) -> bool:
        """A device that is near nothing: SYS to some says where it is not. SYS to all others says that it
        is in a NUMA domain of its own.
        """
        others = np.delete(self.trusted[part[0]], part[0]) if len(part) == 1 else np.array([])
        apart = len(others) > 0 and bool((others == SYS).all())
        return len(part) == 1 and not apart and not bool((others <= NODE).any())

    def _below_cpu(
        self, members: Sequence[int], cpu: str, number: int | None, *, host_bridges: bool
    ) -> None:
        for under in _by_group(members, self.groups[PHB - 1]):
            row = self.trusted[under[0]]
            tells = len(under) > 1 or bool((row <= NODE).any())
            above = self._add("host_bridge", cpu, number) if host_bridges and tells else cpu
            switched = (
                _by_group(under, self.groups[PXB - 1]) if host_bridges else [[i] for i in under]
            )
            for part in switched:
                self._below_bridge(part, above, number)

    def _below_bridge(self, part: Sequence[int], above: str, number: int | None) -> None:
        """One switch for a PIX group; for a PXB group an outer switch with one inner switch a part."""
        if len(part) == 1:
            self.links += both_ways(self.names[part[0]], above, "pcie")
            return
        inner = _by_group(part, self.groups[PIX - 1])
        outer = self._add("pcie_switch", above, number)
        for near in inner:
            switch = outer if len(inner) == 1 else self._add("pcie_switch", outer, number)
            for i in near:
                self.links += both_ways(self.names[i], switch, "pcie")

    def _add(self, kind: DeviceKind, above: str, number: int | None) -> str:
        index = self._count.get(kind, 0)
        self._count[kind] = index + 1
        name = f"{self.host}/{kind}{index}"
        self.devices.append(Device(name, kind, host=self.host, numa=number))
        self.links += both_ways(name, above, "pcie")
        return name


def _by_group(members: Iterable[int], group: Sequence[int]) -> list[list[int]]:
    parts: dict[int, list[int]] = {}
    for i in members:
        parts.setdefault(group[i], []).append(i)
    return list(parts.values())


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
