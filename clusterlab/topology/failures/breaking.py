"""A fabric with some of it down or degraded, and what that took away. Pure.

``break_fabric(fabric, ["leaf3/spine2#1", "n5/nic3", "osfp4@n2", "n3/gpu2/pcie2:half"])``; the forms are
those of ``breakage.py``. What is already down stays down; a share of capacity is the smaller of what was
there and what is left. Parallel cables keep their numbers, so breaking one twice breaks one.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.breakage import (
    FORMS,
    Breakage,
    is_pattern,
    matcher,
    parse_breakage,
)
from clusterlab.topology.parts import SWITCH_KINDS, Device, Link, some_cables

Pair = tuple[str, str]
"""A connection by the names of its ends, in either order."""

MAX_BREAKAGES = 10_000


def break_fabric(fabric: Fabric, what: Sequence[str]) -> Fabric:
    """``fabric`` with everything in ``what`` down or degraded, in both directions.

    Raises UsageError, with the nearest name, for what the fabric does not have.
    """
    if len(what) > MAX_BREAKAGES:
        raise UsageError(
            f"{len(what)} things to break",
            where="what to break",
            expected=f"at most {MAX_BREAKAGES}",
        )
    found = _Names(fabric)
    left: defaultdict[Pair, dict[int | None, float]] = defaultdict(dict)
    for breakage in map(parse_breakage, what):
        for pair in _pairs(found, breakage):
            for key in (pair, (pair[1], pair[0])):
                shares = left[key]
                shares[breakage.cable] = min(breakage.left, shares.get(breakage.cable, 1.0))
    changes = {
        pair: _damaged([k for k in fabric.links_from(pair[0]) if k.dst == pair[1]], shares)
        for pair, shares in left.items()
    }
    text = json.dumps([fabric.digest, *what])
    return replace(
        fabric.with_links({pair: links for pair, links in changes.items() if links}),
        description=f"{fabric.description} (broken: {_listed(what)})"
        if what
        else fabric.description,
        digest=hashlib.sha256(text.encode()).hexdigest() if what else fabric.digest,
    )


def broken_yaml(base: str, digest: str, what: Sequence[str]) -> str:
    """The broken fabric as a file by reference: the design or path it starts from, and what is broken."""
    quoted = [json.dumps(item, ensure_ascii=False) for item in (base, digest, *what)]
    return "\n".join(
        [
            f"base: {quoted[0]}",
            f"digest: {quoted[1]} # of the base as it was broken",
            "broken:",
            *(f"  - {item}" for item in quoted[2:]),
            "",
        ]
        if what
        else [f"base: {quoted[0]}", f"digest: {quoted[1]}", "broken: []", ""]
    )


def _listed(what: Sequence[str]) -> str:
    more = f", … {len(what)} in all" if len(what) > 8 else ""
    return ", ".join(what[:8]) + more


def _damaged(links: Sequence[Link], left: dict[int | None, float]) -> list[Link]:
    """The links of one direction with the health of the named cables (None: of all) brought down."""
    hurt: list[Link] = []
    first = 0
    for link in links:
        base = replace(link, health=min(link.health, left.get(None, 1.0)))
        named = sorted(
            i - first for i in left if i is not None and first <= i < first + link.multiplicity
        )
        at = 0
        for i in named:
            share = min(base.health, left[first + i])
            hurt += _run(base, at, i - at) + _run(replace(base, health=share), i, 1)
            at = i + 1
        hurt += _run(base, at, link.multiplicity - at)
        first += link.multiplicity
    runs = groupby(hurt, key=lambda link: replace(link, multiplicity=1, ports=()))
    return [_joined(link, list(same)) for link, same in runs]


def _run(link: Link, first: int, cables: int) -> list[Link]:
    return [some_cables(link, first, cables)] if cables else []


def _joined(link: Link, same: Sequence[Link]) -> Link:
    ports = tuple(port for k in same for port in k.ports)
    return replace(link, multiplicity=sum(k.multiplicity for k in same), ports=ports)


class _Names:
    """What of a fabric people may name."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.devices = {d.name: d for d in fabric.devices}
        self.hosts = set(fabric.hosts)

    def matching(self, pattern: str) -> list[Device]:
        """Devices called so, and those of hosts called so."""
        if pattern in self.devices and pattern not in self.hosts:
            return [self.devices[pattern]]
        if pattern in self.hosts:
            return [*self.fabric.on_host(pattern), *self._named(pattern)]
        if not is_pattern(pattern):
            return []
        fits = matcher(pattern)
        hosts = {host for host in self.hosts if fits(host)}
        return [d for name, d in self.devices.items() if d.host in hosts or fits(name)]

    def named(self, pattern: str) -> list[Device]:
        """Devices called so; a host's devices do not go by its name."""
        if pattern in self.devices:
            return [self.devices[pattern]]
        if not is_pattern(pattern):
            return []
        fits = matcher(pattern)
        return [d for name, d in self.devices.items() if fits(name)]

    def _named(self, name: str) -> Iterator[Device]:
        device = self.devices.get(name)
        if device is not None and device.host != name:
            yield device


def _pairs(names: _Names, breakage: Breakage) -> list[Pair]:
    """The connections that ``breakage`` is about. Raises UsageError when there are none."""
    whole = names.matching(breakage.name) if breakage.host is None else _cage(names, breakage)
    if not whole:
        whole, links = _group(names, breakage.name)
        if links:
            return [*links, *_around(names.fabric, whole)]
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


def _cage(names: _Names, breakage: Breakage) -> list[Device]:
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


def _group(names: _Names, name: str) -> tuple[list[Device], list[Pair]]:
    """``plane1``, ``rail3``: the network's switches and links that carry this number."""
    for word in ("plane", "rail"):
        number = name.removeprefix(word)
        if number == name or not number.isdecimal():
            continue
        fabric = names.fabric
        switches = [
            d
            for d in fabric.network_devices
            if d.kind in SWITCH_KINDS and getattr(d, word) == int(number)
        ]
        links = [(k.src, k.dst) for k in fabric.network_links if getattr(k, word) == int(number)]
        return switches, links
    return [], []


def _connections(names: _Names, name: str) -> tuple[list[Pair], bool]:
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
            both = both or right in names.devices or f"{local}{right}" in names.devices
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
    names: _Names, breakage: Breakage, both_ends: bool, whole: Sequence[Device]
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


def _ends_like(names: _Names, name: str) -> list[str]:
    """What the first device of ``A/B`` is connected to: devices of B's kind where there are any."""
    parts = name.split("/")
    for i in range(1, len(parts)):
        first, second = names.devices.get("/".join(parts[:i])), "/".join(parts[i:])
        if first is None:
            continue
        other = names.devices.get(second) or names.devices.get(f"{first.host}/{second}")
        ends = [names.devices[k.dst] for k in names.fabric.links_from(first.name)]
        alike = [d for d in ends if other is not None and d.kind == other.kind]
        return [d.name for d in alike or ends]
    return []


def _nearest(names: _Names, name: str) -> str | None:
    """The nearest name: of the same host's devices where the host is known, else of hosts and switches."""
    host, _, rest = name.partition("/")
    outside = [d.name for d in names.fabric.network_devices]
    if host in names.hosts:
        near = did_you_mean(name, [d.name for d in names.fabric.on_host(host)])
        return near or did_you_mean(rest, outside)
    if host in names.devices:
        ends = dict.fromkeys(link.dst for link in names.fabric.links_from(host))
        return did_you_mean(name, [f"{host}/{end}" for end in ends])
    return did_you_mean(name, [*outside, *names.fabric.hosts])
