"""Joining InfraGraph's cables through parts that only pass a link on: ports, slots, transceivers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from clusterlab.formats.infragraph_model import LinkType
from clusterlab.topology.importing.infragraph_blueprint import Cable


@dataclass(frozen=True, slots=True)
class Joined:
    """A cable between two devices of the fabric, ``count`` times."""

    a: str
    b: str
    link: LinkType
    count: int


def contract(cables: Iterable[Cable], device_of: Mapping[str, str | None]) -> list[Joined]:
    """Cables between devices. A part that passes links on joins its two cables, at the rate of the slower;
    one with fewer or more than two joins nothing.
    """
    direct: Counter[tuple[str, str, LinkType]] = Counter()
    through: _Through = defaultdict(list)
    for cable in cables:
        for one, other in ((cable.a, cable.b), (cable.b, cable.a)):
            if one not in device_of:
                through[one].append((other, cable.link))
        if cable.a in device_of and cable.b in device_of:
            _count(direct, device_of[cable.a], device_of[cable.b], cable.link)
    seen: set[str] = set()
    for start in through:
        if start in seen or len(through[start]) != 2:
            continue
        chain = _Chain(start, through, device_of)
        seen |= chain.parts
        if chain.ends[0] and chain.ends[1]:
            _count(direct, chain.ends[0], chain.ends[1], _slower(chain.links))
    return [Joined(a, b, link, count) for (a, b, link), count in direct.items()]


_Through = defaultdict[str, list[tuple[str, LinkType]]]


class _Chain:
    """Parts in a row that pass links on: the devices at both ends (None: it ends or forks) and its links."""

    def __init__(self, start: str, through: _Through, device_of: Mapping[str, str | None]) -> None:
        self.through, self.device_of = through, device_of
        self.parts = {start}
        self.links: list[LinkType] = []
        self.ends = [self._walk(start, here, link) for here, link in through[start]]

    def _walk(self, before: str, here: str, link: LinkType) -> str | None:
        through, device_of = self.through, self.device_of
        self.links.append(link)
        while here not in device_of:
            onward = [(name, next_link) for name, next_link in through[here] if name != before]
            if here in self.parts or len(through[here]) != 2 or len(onward) != 1:
                return None
            self.parts.add(here)
            before, here = here, onward[0][0]
            self.links.append(onward[0][1])
        return device_of[here]


def _count(
    found: Counter[tuple[str, str, LinkType]], a: str | None, b: str | None, link: LinkType
) -> None:
    if a is not None and b is not None and a != b:
        key = (b, a, link) if (b, a, link) in found else (a, b, link)
        found[key] += 1


def _slower(links: list[LinkType]) -> LinkType:
    """The slowest of known rates; the first where none is known."""
    known = [link for link in links if link.GBps is not None]
    return min(known, key=lambda link: link.GBps or 0.0) if known else links[0]
