"""What an InfraGraph file says, as plain data (``infragraph`` reads it)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scheme = Literal["one2one", "many2many", "ring"]


@dataclass(frozen=True, slots=True)
class Slice:
    """``nic[0:4]``: a name and the indices meant; ``stop`` None: to the end, ``start`` 0."""

    name: str
    start: int = 0
    stop: int | None = None
    step: int = 1

    def indices(self, count: int) -> range:
        """The indices meant that are among ``count``."""
        stop = count if self.stop is None else min(self.stop, count)
        return range(self.start, max(stop, self.start), self.step)

    def exceeds(self, count: int) -> bool:
        """Whether it means indices that are not among ``count``."""
        return self.start >= count or (self.stop is not None and self.stop > count)

    @property
    def most(self) -> int:
        """The highest index it names."""
        return self.start if self.stop is None else max(self.start, self.stop - 1)


@dataclass(frozen=True, slots=True)
class EdgeEnd:
    """``instance`` is None inside a template; ``path`` leads from component to nested component."""

    path: tuple[Slice, ...]
    instance: Slice | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """Edges between all that ``a`` and ``b`` stand for, by ``scheme``; ``where`` for messages."""

    a: EdgeEnd
    b: EdgeEnd
    scheme: Scheme
    link: str
    where: str


@dataclass(frozen=True, slots=True)
class LinkType:
    """A kind of link. ``GBps`` 1e9 B/s (None: not given, or per lane: ``gigatransfers`` then says it).

    ``unit`` is the word the file gives the bandwidth in.
    """

    name: str
    description: str = ""
    GBps: float | None = None
    gigatransfers: float | None = None
    unit: str = ""
    latency_us: float | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """Part of a template. ``count`` None: not written; ``within`` is the component it is nested in."""

    name: str
    choice: str
    description: str = ""
    count: int | None = None
    within: str | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of device."""

    name: str
    description: str
    components: tuple[Component, ...]
    links: tuple[LinkType, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """``count`` devices made from a template; None: not written."""

    name: str
    device: str
    count: int | None


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """Everything one file says."""

    name: str
    description: str
    templates: tuple[Template, ...]
    instances: tuple[Instance, ...]
    links: tuple[LinkType, ...]
    edges: tuple[Edge, ...]
