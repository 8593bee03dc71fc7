"""Names for InfraGraph: ``leaf0`` to ``leaf31`` are the 32 of ``leaf``; any other name is one of its own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

_NUMBERED = re.compile(r"(.*[^0-9])(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Numbered:
    """One of several under a name: ``leaf`` 3."""

    name: str
    index: int


@dataclass
class Names:
    """Names that InfraGraph takes, each once: letters, digits, ``_`` and ``-``."""

    taken: set[str] = field(default_factory=set)

    def give(self, wanted: str) -> str:
        """``wanted`` made legal, and unlike all given before."""
        legal = re.sub(r"[^A-Za-z0-9_-]+", "-", wanted).strip("-") or "device"
        name, number = legal, 2
        while name in self.taken:
            name, number = f"{legal}-{number}", number + 1
        self.taken.add(name)
        return name


def numbered(members: Sequence[str], names: Names) -> dict[str, Numbered]:
    """Where each member is. Members numbered 0, 1, … without a gap share a name."""
    series: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for member in members:
        match = _NUMBERED.fullmatch(member)
        if match is not None:
            series[match[1]].append((int(match[2]), member))
    whole = {
        prefix: [member for _, member in sorted(found)]
        for prefix, found in series.items()
        if len(found) > 1 and sorted(i for i, _ in found) == list(range(len(found)))
    }
    in_series = {member: prefix for prefix, found in whole.items() for member in found}
    places: dict[str, Numbered] = {}
    for member in members:
        if member in places:
            continue
        prefix = in_series.get(member)
        if prefix is None:
            places[member] = Numbered(names.give(member), 0)
            continue
        name = names.give(prefix)
        places |= {m: Numbered(name, i) for i, m in enumerate(whole[prefix])}
    return places
