"""Host names that must be short, cut where they are alike so that what tells them apart stays. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile


def short_hosts(hosts: Sequence[str], width: int) -> list[str]:
    """The names in at most ``width`` columns: without a common domain, then a common beginning, then cut in
    the middle.
    """
    if max(map(len, hosts), default=0) <= width:
        return list(hosts)
    names = list(hosts)
    if len({host.partition(".")[2] for host in hosts}) == 1:
        names = [host.partition(".")[0] or host for host in hosts]
    if max(map(len, names)) > width and len(set(names)) > 1:
        alike = _common_beginning(names).rstrip("0123456789")
        if len(alike) > 1:
            names = [f"…{name[len(alike) :]}" for name in names]
    return [_cut_middle(name, width) for name in names]


def _common_beginning(names: Sequence[str]) -> str:
    columns = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in columns)


def _cut_middle(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    begin = (width - 1) // 3
    end = width - 1 - begin
    return f"{name[:begin]}…{name[len(name) - end :]}"
