"""Equal hosts kept once: a sequence that repeats a template under each host's name when asked.

2,048 equal hosts of 30 devices and 250 links are 280 objects here, not 570,000.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar, overload

T = TypeVar("T")


@dataclass(frozen=True)
class Group(Generic[T]):
    """``hosts`` that hold the same ``items``; the items' names are local (``gpu0``, not ``n0/gpu0``)."""

    hosts: tuple[str, ...]
    items: tuple[T, ...]

    @property
    def count(self) -> int:
        """How many items all hosts hold together."""
        return len(self.hosts) * len(self.items)


class Repeated(Sequence[T]):
    """The items of ``groups``, host after host, then ``single`` ones.

    ``at_host(item, host)`` makes a host's own item of a template's.
    """

    def __init__(
        self,
        groups: Sequence[Group[T]],
        single: Sequence[T],
        at_host: Callable[[T, str], T],
    ) -> None:
        self.groups = tuple(group for group in groups if group.count)
        self.single = tuple(single)
        self.at_host = at_host

    def __len__(self) -> int:
        return sum(group.count for group in self.groups) + len(self.single)

    def __iter__(self) -> Iterator[T]:
        for group in self.groups:
            for host in group.hosts:
                for item in group.items:
                    yield self.at_host(item, host)
        yield from self.single

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        for group in self.groups:
            if at < group.count:
                host, item = divmod(at, len(group.items))
                return self.at_host(group.items[item], group.hosts[host])
            at -= group.count
        return self.single[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))

    @cached_property
    def group_of(self) -> dict[str, Group[T]]:
        """Host → its group. Hosts of single items are not in it."""
        return {host: group for group in self.groups for host in group.hosts}

    def of_host(self, host: str) -> tuple[T, ...]:
        """The repeated items of one host; none where it is not repeated."""
        group = self.group_of.get(host)
        return tuple(self.at_host(item, host) for item in group.items) if group else ()

    def with_single(self, hosts: Collection[str]) -> Repeated[T]:
        """The same items, those of ``hosts`` no longer repeated but single (so that they can differ)."""
        apart = set(hosts)
        return Repeated(
            [Group(tuple(h for h in g.hosts if h not in apart), g.items) for g in self.groups],
            [*(item for host in hosts for item in self.of_host(host)), *self.single],
            self.at_host,
        )
