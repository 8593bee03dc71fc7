"""Which things are joined: sets that grow as joins are made (union-find)."""

from __future__ import annotations

from collections.abc import Iterable


class Joined:
    """Names in disjoint sets; every name begins alone."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._above: dict[str, str] = {name: name for name in names}

    def label(self, name: str) -> str:
        """The name that stands for the set ``name`` is in."""
        above = self._above
        top = name
        while (up := above.setdefault(top, top)) != top:
            top = up
        while name != top:
            above[name], name = top, above[name]
        return top

    def join(self, a: str, b: str) -> None:
        """One set of the two that ``a`` and ``b`` are in."""
        a, b = self.label(a), self.label(b)
        if a != b:
            self._above[max(a, b)] = min(a, b)
