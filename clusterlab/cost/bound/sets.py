"""The sets of devices whose borders limit a group of ranks: one partition of its ranks per level.

Any set gives a valid bound; these are the ones that tiers cut off: each rank's device; inside hosts what
accelerator links, PCIe switches and sockets join; hosts; hosts joined by NVSwitches, by leaves, by spines,
by all there is. Sets that look alike to the bound (ranks, hand-offs, capacities) are kept once. A level's
sets follow from what is joined, never from rates: raising a rate changes no set, and damage that cuts a set
in two leaves a part whose limit is no lower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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
    def hosts(self) -> list[str]:
        """The hosts that hold ranks, each once."""
        return [h for h in dict.fromkeys(self.host_of) if h is not None]

    def partitions(self) -> Iterator[Partition]:
        """One per level that parts the ranks; levels outside hosts that part nothing anew left out."""
        before: dict[str, str] = {}
        for level in LEVELS:
            outside = self.skeleton.labels.get(level, {})
            if level in OUTSIDE and outside is before:
                continue
            before = outside
            labels = self._labels(level)
            if len(set(labels)) > 1:
                yield self._partition(level, labels)

    def _labels(self, level: str) -> list[Label]:
        if level in OUTSIDE:
            outside = self.skeleton.labels[level]
            return [
                (outside[host if host is not None else device], "")
                for device, host in zip(self.devices, self.host_of, strict=True)
            ]
        return [
            (device, "") if host is None else (host, self._local_set(level, host, device))
            for device, host in zip(self.devices, self.host_of, strict=True)
        ]

    def _local_set(self, level: str, host: str, device: str) -> str:
        kind = self.skeleton.class_of(host)
        return kind.labels[level][kind.local(host, device)]

    def _partition(self, level: str, labels: Sequence[Label]) -> Partition:
        n = len(labels)
        members: dict[Label, list[int]] = {}
        for rank, label in enumerate(labels):
            found = members.setdefault(label, [0, 0, rank])
            found[0] += 1
            found[1] += labels[(rank + 1) % n] != label
        capacity_of = self._outside(level) if level in OUTSIDE else self._inside(level)
        at: dict[tuple[int, int, float, float], int] = {}
        sides: list[Side] = []
        counts: list[int] = []
        side_of_label: dict[Label, int] = {}
        for label, (ranks, hand_offs, first) in members.items():
            capacity = capacity_of(label)
            key = (ranks, hand_offs, capacity.out, capacity.into)
            if key not in at:
                at[key] = len(sides)
                sides.append(Side(*key, first))
                counts.append(0)
            side_of_label[label] = at[key]
            counts[at[key]] += 1
        return Partition(
            level,
            tuple(zip(sides, counts, strict=True)),
            tuple(side_of_label[label] for label in labels),
            self._closed(level, members),
        )

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

    def _closed(self, level: str, sets: dict[Label, list[int]]) -> bool:
        """Whether every switch that reduces or multicasts is inside a set with ranks.

        Those of hosts without ranks do not count: GPUs that take no part forward nothing, and an NVSwitch
        reaches GPUs only. Of NVSwitches outside hosts the same holds once their domain is one set.
        """
        outside = self.skeleton.in_network
        if level not in OUTSIDE:
            return not outside and all(
                self._closed_inside(level, host, sets) for host in self.hosts
            )
        labels = self.skeleton.labels[level]
        return all(
            level != "host" if d.kind == "nvswitch" else (labels[d.name], "") in sets
            for d in outside
        )

    def _closed_inside(self, level: str, host: str, sets: dict[Label, list[int]]) -> bool:
        kind = self.skeleton.class_of(host)
        labels = kind.labels[level]
        return all((host, labels[name]) in sets for name in kind.in_network)
