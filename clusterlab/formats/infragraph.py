"""Keysight InfraGraph: device templates, instances of them, links and edges (YAML or JSON).

Schema at github.com/Keysight/infragraph, schema/*.yaml. Versions differ; all of these are read:

    infrastructure: {devices, instances, links, edges}     or the same keys at the top
    device: [{…}]                                          templates alone
    component: {name, count, choice: xpu}                  older: type: xpu (or npu); count may be missing
    edge: {ep1: {instance: "n[0:2]", component: "nic"}, ep2, scheme: one2one|many2many|ring, link}
                                                           older: many2many: true|false
    connections: ["n.0.nic.0.eth.leaf.0.port.0"]           before there were edges
    link: {physical: {bandwidth: {choice, gigabits_per_second: 400}, latency: {choice, ns: 500}}}
                                                           older: bandwidth right below; other spellings
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.documents import read_document
from clusterlab.formats.fields import at, mapping, sequence, text
from clusterlab.formats.infragraph_links import read_links
from clusterlab.formats.infragraph_model import (
    Component,
    Edge,
    EdgeEnd,
    Infrastructure,
    Instance,
    Scheme,
    Slice,
    Template,
)
from clusterlab.formats.strict_yaml import Document, Path

MAX_COUNT = 200_000

_ROOT = re.compile(r'(?m)^[{ \t]*"?infrastructure"?[ \t]*:')
_DEVICES = re.compile(r'(?m)^[{ \t]*"?(?:devices?|instances)"?[ \t]*:')
_ONE_DEVICE = re.compile(r'(?m)^ {0,4}"?components"?[ \t]*:')
_PART = re.compile(r"([A-Za-z0-9_-]+)(?:\[([0-9]{0,9})(?:(:)([0-9]{0,9})(?::([0-9]{1,9}))?)?\])?")


def recognise(text_: str) -> bool:
    """Whether this looks like an InfraGraph file: an infrastructure, devices of components, or one device."""

    def has(keys: str) -> bool:
        return re.search(rf'(?:^|[\s{{\["-])(?:{keys})"?\s*:', text_) is not None

    if _ROOT.search(text_) or _DEVICES.search(text_):
        return has("components|edges|connections") or (has("instances") and has("device"))
    return _ONE_DEVICE.search(text_) is not None and has("edges|connections")


def parse_infragraph(text_: str, *, file: str) -> Infrastructure:
    """Read one. Raises UsageError naming file, line and field."""
    document = read_document(text_, file=file)
    data = mapping(document, (), None)
    root: Path = ("infrastructure",) if "infrastructure" in data else ()
    body = mapping(document, root, None)
    key = next((k for k in ("devices", "device") if k in body), "devices")
    devices = at(document, (*root, key))
    if isinstance(devices, dict):
        paths: list[Path] = [(*root, key)]
    elif devices is None and "components" in body:
        paths = [root]
    else:
        paths = [(*root, key, i) for i in range(len(sequence(document, (*root, key))))]
    infrastructure = Infrastructure(
        name=_text(document, (*root, "name")),
        description=_text(document, (*root, "description")),
        templates=tuple(_template(document, path) for path in paths),
        instances=tuple(
            _instance(document, (*root, "instances", i))
            for i in range(len(sequence(document, (*root, "instances"))))
        ),
        links=() if root in paths else read_links(document, root),
        edges=() if root in paths else tuple(_edges(document, root, inside=False)),
    )
    if not infrastructure.templates and not infrastructure.instances:
        raise UsageError(
            "no devices and no instances",
            where=document.where(*root),
            expected="devices, instances, links and edges",
        )
    _reject_twice([t.name for t in infrastructure.templates], "device", document, root)
    _reject_twice([i.name for i in infrastructure.instances], "instance", document, root)
    return infrastructure


def _reject_twice(names: list[str], what: str, document: Document, root: Path) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise UsageError(
                f"{what} {name!r} twice", where=document.where(*root), expected="each name once"
            )


def _text(document: Document, path: Path) -> str:
    return text(document, path, default="", may_be_empty=True)


def _template(document: Document, path: Path) -> Template:
    mapping(document, path, None)
    components = tuple(_components(document, (*path, "components"), None, 1))
    names = [c.name for c in components]
    _reject_twice(names, "component", document, path)
    return Template(
        name=text(document, (*path, "name")),
        description=_text(document, (*path, "description")),
        components=components,
        links=read_links(document, path),
        edges=tuple(_edges(document, path, inside=True)),
    )


def _components(
    document: Document, path: Path, within: str | None, times: int
) -> Iterator[Component]:
    for i in range(len(sequence(document, path))):
        here = (*path, i)
        entry = mapping(document, here, None)
        count = _count(document, (*here, "count"))
        name = text(document, (*here, "name"))
        total = count if count is None else count * times
        if total is not None and total > MAX_COUNT:
            raise UsageError(
                f"{total} of {name}",
                where=document.where(*here, "count"),
                expected=f"at most {MAX_COUNT}",
            )
        yield Component(
            name=name,
            choice=_choice(document, here, entry),
            description=_text(document, (*here, "description")),
            count=total,
            within=within,
        )
        if "components" in entry:
            yield from _components(document, (*here, "components"), name, total or 1)


def _choice(document: Document, path: Path, entry: dict[str, object]) -> str:
    """``xpu``, ``nic`` …; for ``custom`` the custom type where one is given."""
    choice = _text(document, (*path, "choice")) or _text(document, (*path, "type"))
    custom = entry.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("type"), str):
        return str(custom["type"])
    return choice or "custom"


def _count(document: Document, path: Path) -> int | None:
    value = at(document, path)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_COUNT:
        raise UsageError(
            f"{str(value)[:60]!r}", where=document.where(*path), expected=f"0 to {MAX_COUNT}"
        )
    return value


def _instance(document: Document, path: Path) -> Instance:
    mapping(document, path, None)
    return Instance(
        text(document, (*path, "name")),
        text(document, (*path, "device")),
        _count(document, (*path, "count")),
    )


def _edges(document: Document, path: Path, *, inside: bool) -> Iterator[Edge]:
    for i in range(len(sequence(document, (*path, "edges")))):
        here = (*path, "edges", i)
        entry = mapping(document, here, None)
        yield Edge(
            _end(document, (*here, "ep1"), inside=inside),
            _end(document, (*here, "ep2"), inside=inside),
            _scheme(document, here, entry),
            _text(document, (*here, "link")),
            document.where(*here),
        )
    for i in range(len(sequence(document, (*path, "connections")))):
        yield _connection(document, (*path, "connections", i), inside=inside)


def _scheme(document: Document, path: Path, entry: dict[str, object]) -> Scheme:
    if isinstance(entry.get("many2many"), bool):
        return "many2many" if entry["many2many"] else "one2one"
    scheme = _text(document, (*path, "scheme"))
    for known in ("one2one", "many2many", "ring"):
        if scheme == known:
            return known
    raise unknown(
        "scheme", scheme[:60], ("one2one", "many2many", "ring"), where=document.where(*path)
    )


def _end(document: Document, path: Path, *, inside: bool) -> EdgeEnd:
    mapping(document, path, None)
    component = text(document, (*path, "component"))
    where = document.where(*path)
    parts = [_slice(part, where) for part in component.split(".")]
    if not inside:
        return EdgeEnd(tuple(parts), _slice(text(document, (*path, "instance")), where))
    device = _text(document, (*path, "device"))
    return EdgeEnd((*([_slice(device, where)] if device else []), *parts))


def _slice(part: str, where: str) -> Slice:
    match = _PART.fullmatch(part.strip())
    if match is None or (match[2] == "" and not match[3]):
        raise UsageError(
            f"{part[:60]!r}", where=where, expected="a name with indices such as nic[0:4]"
        )
    if match[2] is None:
        return Slice(match[1])
    start = int(match[2] or 0)
    if not match[3]:
        return Slice(match[1], start, start + 1)
    step = int(match[5] or 1)
    if step < 1:
        raise UsageError(f"{part[:60]!r}", where=where, expected="a step of at least 1")
    return Slice(match[1], start, int(match[4]) if match[4] else None, step)


def _connection(document: Document, path: Path, *, inside: bool) -> Edge:
    """``xpu.0.pcie.nic.0``, or between instances ``n.0.nic.0.eth.leaf.0.port.0``."""
    where = document.where(*path)
    words = text(document, path).split(".")
    half = len(words) // 2
    ends = [words[:half], words[half + 1 :]]
    least = 2 if inside else 4
    good = len(words) % 2 == 1 and half >= least and half % 2 == 0
    if not good or not all(re.fullmatch(r"[0-9]{1,9}", w) for end in ends for w in end[1::2]):
        raise UsageError(
            f"{'.'.join(words)[:80]!r}",
            where=where,
            expected="xpu.0.pcie.nic.0" if inside else "n.0.nic.0.eth.leaf.0.port.0",
        )
    slices = [
        [_slice(f"{name}[{index}]", where) for name, index in zip(end[::2], end[1::2], strict=True)]
        for end in ends
    ]
    a, b = (
        EdgeEnd(tuple(parts)) if inside else EdgeEnd(tuple(parts[1:]), parts[0]) for parts in slices
    )
    return Edge(a, b, "one2one", words[half], where)
