"""The sets of devices whose borders limit a group of ranks: one partition of its ranks per level.

Any set gives a valid bound; these are the ones that tiers cut off: each rank's device; inside hosts what
accelerator links, PCIe switches and sockets join; hosts; hosts joined by NVSwitches, by leaves, by spines,
by all there is. Sets that look alike to the bound (ranks, hand-offs, capacities) are kept once. A level's
sets follow from what is joined, never from rates: raising a rate changes no set, and damage that cuts a set
in two leaves a part whose limit is no lower.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, repeat

from clusterlab.cost.bound.skeleton import INSIDE, OUTSIDE, Capacity, Skeleton
from clusterlab.topology.fabric import Fabric

LEVELS = ("device", *INSIDE, *OUTSIDE)

Label = tuple[str, str]
"""A host and a set inside it, or a node and nothing."""


@dataclass(frozen=True, slots=True)
class Side:
    """Sets that look alike: their ``ranks``, of which ``hand_offs`` have their next rank outside, and the
    wire capacity across the border. ``first_rank`` is in the first of them.
    """

    ranks: int
    hand_offs: int
    out_GBps: float
    into_GBps: float
    first_rank: int


@dataclass(frozen=True, slots=True)
class Partition:
    """The ranks of a group by the sets of one level. ``sides`` with how many sets each stands for;
    ``side_of`` the side of each rank's set. ``closed``: what reduces or multicasts on the way is inside
    the sets, so between them only whole messages pass.
    """

    level: str
    sides: tuple[tuple[Side, int], ...]
    side_of: tuple[int, ...]
    closed: bool

    @property
    def sets(self) -> int:
        """How many sets hold ranks."""
        return sum(count for _, count in self.sides)

    def total_GBps(self) -> tuple[float, float]:
        """Capacity out of, and into, all sets together."""
        return (
            sum(side.out_GBps * count for side, count in self.sides),
            sum(side.into_GBps * count for side, count in self.sides),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """``count`` ranks one after the other on one host (None: on one device outside hosts)."""

    host: str | None
    first: int
    count: int


Pieces = Sequence[tuple[Label, int]]
"""Ranks in order: a set, and how many of them one after the other are in it."""


@dataclass
class Ranks:
    """A group's ranks on a fabric."""

    fabric: Fabric
    skeleton: Skeleton
    devices: tuple[str, ...]

    @cached_property
    def host_of(self) -> list[str | None]:
        """Each rank's host."""
        hosts: dict[str, str | None] = {
            d: self.fabric.host_of(d) for d in dict.fromkeys(self.devices)
        }
        return [hosts[d] for d in self.devices]

    @cached_property
    def _runs(self) -> list[Run]:
        found: list[Run] = []
        starts = zip(self.host_of, self.devices, strict=True)
        first = 0
        for (host, _), ranks in groupby(starts, key=lambda r: r if r[0] is None else (r[0], "")):
            found.append(Run(host, first, sum(1 for _ in ranks)))
            first += found[-1].count
        return found

    @cached_property
    def _alike(self) -> list[tuple[Run, ...]]:
        """Runs whose hosts are alike to the bound, so that one stands for all; all ranks as one run where
        a host has several, as then what follows a rank may be on its own host.
        """
        runs = self._runs
        if len({run.host for run in runs}) < len(runs) or len(runs) == 1:
            return [(Run(None, 0, len(self.devices)),)]
        alike: dict[object, list[Run]] = {}
        for run in runs:
            alike.setdefault(self._looks(run), []).append(run)
        return [tuple(found) for found in alike.values()]

    def _looks(self, run: Run) -> object:
        """What the bound sees of a host: what it is like inside, its ranks, its ports."""
        host = run.host
        if host is None:
            return run
        kind = self.skeleton.class_of(host)
        mine = self.devices[run.first : run.first + run.count]
        ports = self.skeleton.ports.get(host, {}).items()
        return (
            id(kind),
            tuple(kind.local(host, device) for device in mine),
            tuple((kind.local(host, device), p.out, p.into) for device, p in ports),
        )

    def partitions(self) -> Iterator[Partition]:
        """One per level that parts the ranks; levels outside hosts that part nothing anew left out."""
        before: dict[str, str] = {}
        for level in LEVELS:
            outside = self.skeleton.labels.get(level, {})
            if level in OUTSIDE and outside is before:
                continue
            before = outside
            found = self._partition(level)
            if found.sets > 1:
                yield found

    def _partition(self, level: str) -> Partition:
        if level in OUTSIDE:
            sides = _Sides(self._outside(level))
            pieces = [(self._outside_label(level, run), run.count) for run in self._runs]
            side_of = sides.add(pieces, 0, after=pieces[0][0])
            closed = self._closed_outside(level, {label for label, _ in pieces})
            return Partition(level, sides.counted, _repeated(side_of, pieces), closed)
        sides = _Sides(self._inside(level))
        sides_of: dict[int, list[int]] = {}
        closed = not self.skeleton.in_network
        for runs in self._alike:
            one = runs[0]
            pieces = [
                (self._label(level, rank), 1) for rank in range(one.first, one.first + one.count)
            ]
            after = pieces[0][0] if one.count == len(self.devices) else None
            mine = sides.add(pieces, one.first, after=after, times=len(runs))
            sides_of.update(dict.fromkeys((run.first for run in runs), mine))
            closed = closed and self._closed_inside(level, {label for label, _ in pieces})
        side_of = [side for first in sorted(sides_of) for side in sides_of[first]]
        return Partition(level, sides.counted, tuple(side_of), closed)

    def _outside_label(self, level: str, run: Run) -> Label:
        node = self.devices[run.first] if run.host is None else run.host
        return self.skeleton.labels[level][node], ""

    def _label(self, level: str, rank: int) -> Label:
        device, host = self.devices[rank], self.host_of[rank]
        if host is None:
            return device, ""
        kind = self.skeleton.class_of(host)
        return host, kind.labels[level][kind.local(host, device)]

    def _outside(self, level: str) -> Callable[[Label], Capacity]:
        found = self.skeleton.capacity[level]
        return lambda label: found.get(label[0], Capacity())

    def _inside(self, level: str) -> Callable[[Label], Capacity]:
        """The host's own links across the border, and what leaves the host from within the set."""
        whole = self._outside("host")

        def capacity(label: Label) -> Capacity:
            host, inside = label
            if not inside:
                return whole(label)
            kind = self.skeleton.class_of(host)
            total = Capacity()
            own = kind.capacity[level].get(inside)
            if own is not None:
                total.add(own)
            labels = kind.labels[level]
            for device, port in self.skeleton.ports.get(host, {}).items():
                if labels[kind.local(host, device)] == inside:
                    total.add(port)
            return total

        return capacity

    def _closed_outside(self, level: str, sets: Collection[Label]) -> bool:
        """Whether every switch that reduces or multicasts is inside a set with ranks.

        Those of hosts without ranks do not count: GPUs that take no part forward nothing, and an NVSwitch
        reaches GPUs only. Of NVSwitches outside hosts the same holds once their domain is one set.
        """
        labels = self.skeleton.labels[level]
        return all(
            level != "host" if d.kind == "nvswitch" else (labels[d.name], "") in sets
            for d in self.skeleton.in_network
        )

    def _closed_inside(self, level: str, sets: Collection[Label]) -> bool:
        """The same of the switches in the hosts that ``sets`` are in."""
        hosts = {host for host, inside in sets if inside}
        kinds = ((host, self.skeleton.class_of(host)) for host in hosts)
        return all(
            (host, kind.labels[level][name]) in sets
            for host, kind in kinds
            for name in kind.in_network
        )


class _Sides:
    """Sets counted by what they look like."""

    def __init__(self, capacity_of: Callable[[Label], Capacity]) -> None:
        self._capacity_of = capacity_of
        self._at: dict[tuple[int, int, float, float], int] = {}
        self._sides: list[Side] = []
        self._counts: list[int] = []

    @property
    def counted(self) -> tuple[tuple[Side, int], ...]:
        """The sides, each with how many sets it stands for."""
        return tuple(zip(self._sides, self._counts, strict=True))

    def add(self, pieces: Pieces, first: int, *, after: Label | None, times: int = 1) -> list[int]:
        """Add the sets of ``pieces``, which begin at rank ``first`` and all look so ``times`` times. The
        rank behind them is in the set ``after`` (None: in none of these). Returns the side of each piece.
        """
        members: dict[Label, list[int]] = {}
        following = [*(label for label, _ in pieces[1:]), after]
        for (label, count), then in zip(pieces, following, strict=True):
            found = members.setdefault(label, [0, 0, first])
            found[0] += count
            found[1] += then != label
            first += count
        side_of: dict[Label, int] = {}
        for label, (ranks, hand_offs, first_rank) in members.items():
            capacity = self._capacity_of(label)
            key = (ranks, hand_offs, capacity.out, capacity.into)
            at = self._at.get(key)
            if at is None:
                at = self._at[key] = len(self._sides)
                self._sides.append(Side(*key, first_rank))
                self._counts.append(0)
            self._counts[at] += times
            side_of[label] = at
        return [side_of[label] for label, _ in pieces]


def _repeated(side_of: Sequence[int], pieces: Pieces) -> tuple[int, ...]:
    """Each piece's side for all its ranks."""
    each = zip(side_of, pieces, strict=True)
    return tuple(chain.from_iterable(repeat(side, count) for side, (_, count) in each))
