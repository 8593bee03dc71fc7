"""The parts of a design: kinds of link, groups of devices, lines of wiring. Used by ``load.py``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import did_you_mean, unknown
from clusterlab.formats.fields import at, flag, mapping, number, sequence, short, text, whole
from clusterlab.formats.strict_yaml import Document, Path
from clusterlab.topology.design.numbers import need_number, with_number
from clusterlab.topology.design.wiring import connect
from clusterlab.topology.parts import (
    DEVICE_KINDS,
    LINK_CLASSES,
    ROLES,
    TRANSPORTS,
    Device,
    Link,
    LinkClass,
    Transport,
    check_figures,
)

MAX_DEVICES = 4_000_000
"""Equal hosts are kept once, so this many are held without being made."""
MAX_LINKS = 40_000_000
MAX_SINGLE_LINKS = 4_000_000
"""Links that are kept one by one: 131,072 GPUs behind three tiers have 0.8 million."""

_DEVICE_KEYS = (
    "name",
    "kind",
    "count",
    "model",
    "numa",
    "rail",
    "plane",
    "cores",
    "memory_GiB",
    "in_network",
    "role",
    "ports",
    "host",
    "pci",
    "guid",
    "interface",
    "cage",
    "listed_as",
    "transport",
)
_LINK_KEYS = (
    "class",
    "GBps",
    "GBps_source",
    "wire_GBps",
    "wire_source",
    "latency_us",
    "latency_source",
)
_WIRING_KEYS = (
    "from",
    "to",
    "between",
    "type",
    "multiplicity",
    "rail",
    "plane",
    "health",
    "one_way",
    "ports",
)


@dataclass(frozen=True, slots=True)
class LinkKind:
    """One entry of a design's ``links``: the figures every cable of this kind has."""

    link_class: LinkClass
    GBps: float | None
    GBps_source: str
    wire_GBps: float | None
    wire_source: str
    latency_us: float | None
    latency_source: str


def limit(count: int, most: int, what: str, document: Document) -> None:
    """Raise UsageError when a design asks for more than this program holds."""
    if count > most:
        raise UsageError(f"{count} {what}", where=document.file, expected=f"at most {most}")


def link_kind(document: Document, name: str) -> LinkKind:
    """The kind of link called ``name``; a figure that is given must have its source."""
    path = ("links", name)
    mapping(document, path, _LINK_KEYS)
    link_class = text(document, (*path, "class"))
    if link_class not in LINK_CLASSES:
        raise unknown("link class", link_class, LINK_CLASSES, where=document.where(*path, "class"))
    figures = {
        field: number(document, (*path, field), required=field == "GBps")
        for field in ("GBps", "wire_GBps", "latency_us")
    }
    check_figures(**figures, where=lambda field: document.where(*path, field))
    sources = {
        f"{stem}_source": _source(document, path, f"{stem}_source", figures[field])
        for field, stem in (("GBps", "GBps"), ("wire_GBps", "wire"), ("latency_us", "latency"))
    }
    return LinkKind(link_class=link_class, **figures, **sources)  # type: ignore[arg-type]


def _source(document: Document, path: Path, field: str, value: float | None) -> str:
    source = text(document, (*path, field), default="")
    if value is not None and not source:
        raise UsageError(
            f"a figure without its source: no {field}",
            where=document.where(*path),
            expected="where the number was read or how it was measured",
        )
    return source


def device_groups(
    document: Document, path: Path, *, host: str | None, taken: Collection[str] = ()
) -> list[Device]:
    """The devices of a ``devices`` list; each entry may stand for ``count`` of them.

    ``taken`` are names that exist already.
    """
    found: dict[str, Device] = {}
    for i in range(len(sequence(document, path))):
        for device in _device_group(document, (*path, i), host):
            if device.name in found or device.name in taken:
                raise UsageError(
                    f"two devices are called {device.name!r}",
                    where=document.where(*path, i),
                    expected="each name once",
                )
            found[device.name] = device
    return list(found.values())


def _transport(document: Document, path: Path, kind: str) -> Transport | None:
    """What a NIC speaks; refused on other devices."""
    said = text(document, (*path, "transport"), default="")
    if not said:
        return None
    where = document.where(*path, "transport")
    if kind != "nic":
        raise UsageError(
            f"a transport on a {kind}",
            where=where,
            expected="transport only on devices of kind nic",
        )
    if said not in TRANSPORTS:
        raise unknown("transport", said, TRANSPORTS, where=where)
    return cast(Transport, said)


def _device_group(document: Document, path: Path, host: str | None) -> list[Device]:
    mapping(document, path, _DEVICE_KEYS)
    name = text(document, (*path, "name"))
    kind = text(document, (*path, "kind"))
    if kind not in DEVICE_KINDS:
        raise unknown("device kind", kind, DEVICE_KINDS, where=document.where(*path, "kind"))
    count = whole(document, (*path, "count"), default=1)
    limit(count, MAX_DEVICES, "devices", document)
    counted = at(document, (*path, "count")) is not None
    if counted:
        need_number(name, count, where=document.where(*path, "name"))
    memory = number(document, (*path, "memory_GiB"))
    model = text(document, (*path, "model"), default="")
    in_network = flag(document, (*path, "in_network"))
    role = text(document, (*path, "role"), default="")
    if role and role not in ROLES:
        raise unknown("role", role, ROLES, where=document.where(*path, "role"))
    transport = _transport(document, path, kind)
    host = text(document, (*path, "host"), default="") or host

    def words(field: str, i: int) -> str | None:
        value = _words(document, (*path, field), i, count)
        return with_number(value, i) if value and counted else value

    return [
        Device(
            name=with_number(name, i) if counted else name,
            kind=kind,  # type: ignore[arg-type]  # one of DEVICE_KINDS, checked above
            host=host,
            model=model or None,
            numa=per_instance(document, (*path, "numa"), i, count),
            rail=per_instance(document, (*path, "rail"), i, count),
            plane=per_instance(document, (*path, "plane"), i, count),
            cores=per_instance(document, (*path, "cores"), i, count),
            memory_bytes=None if memory is None else int(memory * (1 << 30)),
            in_network=in_network,
            role=role or None,  # type: ignore[arg-type]  # one of ROLES, checked above
            ports=per_instance(document, (*path, "ports"), i, count),
            pci=words("pci", i),
            guid=words("guid", i),
            interface=words("interface", i),
            cage=words("cage", i),
            listed_as=words("listed_as", i),
            transport=transport,
        )
        for i in range(count)
    ]


def _words(document: Document, path: Path, i: int, count: int) -> str | None:
    """Text for all, or a list with one for each; absent: unknown."""
    value = at(document, path)
    if value is None or value == "unknown":
        return None
    if isinstance(value, list):
        if len(value) != count:
            raise UsageError(
                f"{len(value)} entries for {count} devices", where=document.where(*path)
            )
        value = value[i]
    if not isinstance(value, str) or not value:
        raise UsageError(
            f"{short(value)}", where=document.where(*path), expected="text, or a list of texts"
        )
    return value


def per_instance(document: Document, path: Path, i: int, count: int) -> int | None:
    """A whole number for all, a list with one for each, or ``index``: the instance's own number."""
    value = at(document, path)
    if value is None or value == "unknown":
        return None
    if value == "index":
        return i
    if isinstance(value, list):
        if len(value) != count:
            raise UsageError(
                f"{len(value)} entries for {count} devices", where=document.where(*path)
            )
        value = value[i]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{value!r}", where=document.where(*path), expected="a whole number, a list, or index"
        )
    return value


def wired(
    document: Document, path: Path, devices: Sequence[Device], kinds: Mapping[str, LinkKind]
) -> list[Link]:
    """The links of a ``links`` list of wirings among ``devices``."""
    by_name = {d.name: d for d in devices}
    links: list[Link] = []
    for i in range(len(sequence(document, path))):
        links += _wiring(document, (*path, i), by_name, kinds)
        limit(len(links), MAX_SINGLE_LINKS, "links", document)
    return links


def _wiring(
    document: Document, path: Path, by_name: Mapping[str, Device], kinds: Mapping[str, LinkKind]
) -> list[Link]:
    mapping(document, path, _WIRING_KEYS)
    type_name = text(document, (*path, "type"))
    if type_name not in kinds:
        raise unknown("link type", type_name, kinds, where=document.where(*path, "type"))
    kind = kinds[type_name]
    health = number(document, (*path, "health"), default=1.0)
    if health is None or not 0 <= health <= 1:
        raise UsageError(
            f"health is {health}",
            where=document.where(*path, "health"),
            expected="0 (down) to 1 (whole)",
        )
    multiplicity = whole(document, (*path, "multiplicity"), default=1)
    pairs = _pairs(document, path, by_name, may_loop=kind.link_class == "memory")
    ports = _ports(document, path, multiplicity)
    both = [(pair, ports[0]) for pair in pairs]
    if not flag(document, (*path, "one_way")):
        both += [((b, a), ports[1]) for a, b in pairs if a != b]
    figures = {f.name: getattr(kind, f.name) for f in fields(LinkKind)}
    return [
        Link(
            src=a,
            dst=b,
            multiplicity=multiplicity,
            health=health,
            rail=_of_ends(document, path, "rail", by_name[a], by_name[b]),
            plane=_of_ends(document, path, "plane", by_name[a], by_name[b]),
            ports=numbers,
            **figures,
        )
        for (a, b), numbers in both
    ]


def _ports(document: Document, path: Path, cables: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ports of the two ends of ``between`` its cables are in; empty where not written."""
    field = (*path, "ports")
    if at(document, field) is None:
        return (), ()
    where = document.where(*field)
    if at(document, (*path, "between")) is None:
        raise UsageError(
            "ports of many connections",
            where=where,
            expected="ports beside between: numbers of two devices",
        )
    ends = sequence(document, field)
    if len(ends) != 2 or not all(isinstance(end, list) for end in ends):
        raise UsageError(
            f"{short(ends)}", where=where, expected="two lists of ports, as in [[35, 36], [1, 2]]"
        )
    for end in ends:
        right = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in end)
        if not right or len(end) not in (0, cables):
            raise UsageError(
                f"{short(end)}",
                where=where,
                expected=f"{cables} port number{'s' if cables > 1 else ''}, one a cable, or none",
            )
    return tuple(ends[0]), tuple(ends[1])


def _pairs(
    document: Document, path: Path, by_name: Mapping[str, Device], *, may_loop: bool
) -> list[tuple[str, str]]:
    """What a line of wiring joins: patterns ``from`` and ``to``, or two exact names ``between``."""
    if at(document, (*path, "between")) is None:
        return connect(
            list(by_name),
            text(document, (*path, "from")),
            text(document, (*path, "to")),
            where_from=document.where(*path, "from"),
            where_to=document.where(*path, "to"),
            may_loop=may_loop,
        )
    names = sequence(document, (*path, "between"))
    where = document.where(*path, "between")
    if len(names) != 2 or at(document, (*path, "from")) is not None:
        raise UsageError(
            "between is not two names", where=where, expected="[a, b], and neither from nor to"
        )
    for name in names:
        if name not in by_name:
            raise UsageError(
                f"dangling link: no device {name!r}",
                where=where,
                expected="two devices of the fabric",
                fix=did_you_mean(str(name), by_name),
            )
    return [(names[0], names[1])]


def _of_ends(document: Document, path: Path, field: str, a: Device, b: Device) -> int | None:
    """A link's rail or plane: as written, else that of the end that has one."""
    if at(document, (*path, field)) is not None:
        return per_instance(document, (*path, field), 0, 1)
    ends = [getattr(d, field) for d in (a, b) if getattr(d, field) is not None]
    return ends[0] if ends else None
