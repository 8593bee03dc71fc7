"""Which connections of a fabric a breakage is about, and the nearest name where there is none. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breakage import FORMS, Breakage, is_pattern, matcher
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link

Pair = tuple[str, str]
"""A connection by the names of its ends, in either order."""

_GROUP = re.compile(r"(?P<word>plane|rail)(?P<number>\d{1,9})")


class Names:
    """What of a fabric people may name."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.hosts = set(fabric.hosts)

    def matching(self, pattern: str) -> list[Device]:
        """Devices called so, and those of hosts called so."""
        found = self.fabric.find(pattern)
        if pattern in self.hosts:
            inside = self.fabric.on_host(pattern)
            return [*inside, *([found] if found is not None and found.host != pattern else [])]
        if found is not None:
            return [found]
        if not is_pattern(pattern):
            return []
        fits = matcher(pattern)
        hosts = {host for host in self.hosts if fits(host)}
        return [self.fabric.device(n) for n, h in self._every() if h in hosts or fits(n)]

    def named(self, pattern: str) -> list[Device]:
        """Devices called so; a host's devices do not go by its name."""
        found = self.fabric.find(pattern)
        if found is not None:
            return [found]
        if not is_pattern(pattern):
            return []
        fits = matcher(pattern)
        return [self.fabric.device(name) for name, _ in self._every() if fits(name)]

    def _every(self) -> Iterator[tuple[str, str | None]]:
        """Every device's name and host; those of equal hosts are not made for it."""
        for group in self.fabric.equal_hosts:
            for host in group.hosts:
                for d in group.items:
                    yield f"{host}/{d.name}", host
        for d in self.fabric.single_devices:
            yield d.name, d.host


def pairs_meant(names: Names, breakage: Breakage) -> list[Pair]:
    """The connections that ``breakage`` is about. Raises UsageError when there are none."""
    whole = names.matching(breakage.name) if breakage.host is None else _cage(names, breakage)
    word = _GROUP.fullmatch(breakage.name)
    if not whole and word is not None and breakage.host is None:
        return _rail_or_plane(names.fabric, word["word"], int(word["number"]), breakage)
    if whole and breakage.cable is None:
        return _around(names.fabric, whole)
    pairs, both_ends = _connections(names, breakage.name)
    if not pairs:
        raise _nothing(names, breakage, both_ends, whole)
    if breakage.cable is not None:
        _has_cable(names.fabric, pairs, breakage)
    return pairs


def _around(fabric: Fabric, devices: Iterable[Device]) -> list[Pair]:
    return [
        (link.src, link.dst)
        for d in devices
        for link in (*fabric.links_from(d.name), *fabric.links_to(d.name))
    ]


def _cage(names: Names, breakage: Breakage) -> list[Device]:
    """The NICs behind a connector of the hosts named after the @."""
    fits_cage, fits_host = matcher(breakage.name), matcher(breakage.host or "")
    hosts = [host for host in names.fabric.hosts if fits_host(host)]
    nics = [nic for host in hosts for nic in names.fabric.on_host(host, "nic")]
    found = [nic for nic in nics if nic.cage is not None and fits_cage(nic.cage)]
    if not found:
        cages = list(dict.fromkeys(nic.cage for nic in nics if nic.cage is not None))
        raise UsageError(
            f"no cage {breakage.name!r} on {breakage.host!r}",
            where=breakage.text,
            expected=f"one of {', '.join(cages[:16])}"
            if cages
            else ("a host whose NICs say which cage they share" if hosts else "a host's name"),
            fix=did_you_mean(breakage.name, cages)
            if hosts
            else did_you_mean(breakage.host or "", names.fabric.hosts),
        )
    return found


def _rail_or_plane(fabric: Fabric, word: str, number: int, breakage: Breakage) -> list[Pair]:
    """``plane1``, ``rail3``: the connections of the network's switches and links that carry this number.

    Raises UsageError, saying which rails and planes there are, for one that there is not.
    """

    def of(item: Device | Link) -> int | None:
        return item.rail if word == "rail" else item.plane

    switches = [d for d in fabric.network_devices if d.kind in SWITCH_KINDS and of(d) == number]
    links = [(k.src, k.dst) for k in fabric.network_links if of(k) == number]
    if links:
        return [*links, *_around(fabric, switches)]
    there = {w: _numbers(fabric, w) for w in ("rail", "plane")}
    none = "" if there[word] else f": this fabric has no {word}s"
    listed = [f"{w}s {numbers}" for w, numbers in there.items() if numbers]
    raise UsageError(
        f"no {word} {number}{none}",
        where=breakage.text,
        expected=f"one of its {' and '.join(listed)}" if listed else "a device or a connection",
    )


def _numbers(fabric: Fabric, word: str) -> str:
    """The network's rails or planes: ``0-7``; empty where there are none."""
    numbers = {n for k in fabric.network_links if (n := getattr(k, word)) is not None}
    return compress_hostlist(map(str, sorted(numbers))).strip("[]")


def _connections(names: Names, name: str) -> tuple[list[Pair], bool]:
    """Connected pairs called ``A/B``, wherever in ``name`` A may end; and whether both ends exist."""
    parts = name.split("/")
    both = False
    for i in range(1, len(parts)):
        left, right = "/".join(parts[:i]), "/".join(parts[i:])
        starts = names.named(left)
        if not starts:
            continue
        fits = matcher(right)
        pairs = []
        for start in starts:
            local = f"{start.host}/" if start.host is not None else None
            ends = (right, f"{local}{right}")
            both = both or any(names.fabric.find(end) is not None for end in ends)
            pairs += [
                (start.name, end)
                for end in dict.fromkeys(k.dst for k in names.fabric.links_from(start.name))
                if fits(end) or (local is not None and fits(end.removeprefix(local)))
            ]
        if pairs:
            return pairs, True
    return [], both


def _has_cable(fabric: Fabric, pairs: Sequence[Pair], breakage: Breakage) -> None:
    for a, b in pairs:
        cables = sum(link.multiplicity for link in fabric.links_from(a) if link.dst == b)
        if breakage.cable is not None and breakage.cable >= cables:
            raise UsageError(
                f"no cable #{breakage.cable} between {a} and {b}",
                where=breakage.text,
                expected=f"#0 to #{cables - 1}" if cables > 1 else "#0, the only one",
            )


def _nothing(
    names: Names, breakage: Breakage, both_ends: bool, whole: Sequence[Device]
) -> UsageError:
    """Why ``breakage`` fits nothing, with the nearest name."""
    if whole:
        return UsageError(
            f"{breakage.name!r} is a device, not a connection",
            where=breakage.text,
            expected=f"a cable of a connection, such as {breakage.name}/…#{breakage.cable}",
        )
    if both_ends:
        ends = _ends_like(names, breakage.name)
        more = f" … ({len(ends)} in all)" if len(ends) > 8 else ""
        return UsageError(
            f"no link {breakage.name!r}: the two are not connected",
            where=breakage.text,
            expected=f"one of {', '.join(ends[:8])}{more}" if ends else "two connected devices",
        )
    return UsageError(
        f"nothing is called {breakage.name!r}",
        where=breakage.text,
        expected=FORMS,
        fix=_nearest(names, breakage.name),
    )


def _ends_like(names: Names, name: str) -> list[str]:
    """What the first device of ``A/B`` is connected to: devices of B's kind where there are any."""
    fabric, parts = names.fabric, name.split("/")
    for i in range(1, len(parts)):
        first, second = fabric.find("/".join(parts[:i])), "/".join(parts[i:])
        if first is None:
            continue
        other = fabric.find(second) or fabric.find(f"{first.host}/{second}")
        ends = [fabric.device(k.dst) for k in fabric.links_from(first.name)]
        alike = [d for d in ends if other is not None and d.kind == other.kind]
        return [d.name for d in alike or ends]
    return []


def _nearest(names: Names, name: str) -> str | None:
    """The nearest name: of the same host's devices where the host is known, else of hosts and switches,
    else of what is inside the first host that has such a device.
    """
    fabric = names.fabric
    host, _, rest = name.partition("/")
    outside = [d.name for d in fabric.network_devices]
    if host in names.hosts:
        near = did_you_mean(name, [d.name for d in fabric.on_host(host)])
        return near or did_you_mean(rest, outside)
    if fabric.find(host) is not None:
        ends = dict.fromkeys(link.dst for link in fabric.links_from(host))
        return did_you_mean(name, [f"{host}/{end}" for end in ends])
    inside = [host_names[0] for g in fabric.equal_hosts if (host_names := g.hosts)]
    inside += [h for h in fabric.hosts[:1] if h not in inside]
    local = {f"{h}/{name}": [d.name for d in fabric.on_host(h)] for h in inside}
    exact = [wanted for wanted, there in local.items() if wanted in there]
    if exact:
        return f"did you mean {exact[0]!r}?"
    near = did_you_mean(name, [*outside, *fabric.hosts])
    nearest = (did_you_mean(wanted, there) for wanted, there in local.items())
    return near or next((found for found in nearest if found), None)
