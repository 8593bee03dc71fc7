"""The cables of a listed InfiniBand subnet: each once, though both ends list it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from clusterlab.core.findings import Finding, Severity
from clusterlab.formats.infiniband import IbNetwork, NodeKind, Rate

_SHOWN = 12
"""Lines of evidence a finding lists before it only counts."""

End = tuple[str, int]
"""A node's id and a port number."""


@dataclass(frozen=True, slots=True)
class Cable:
    """One cable between two ports. ``rate`` is the lower one where the ends disagree."""

    ends: tuple[End, End]
    rate: Rate | None


@dataclass(frozen=True)
class Far:
    """A node that others are cabled to and that has no entry of its own."""

    id: str
    kind: NodeKind | None
    description: str


@dataclass
class _Sides:
    lines: list[int] = field(default_factory=list)
    rates: list[Rate | None] = field(default_factory=list)
    near: set[End] = field(default_factory=set)


def cables_of(
    network: IbNetwork, names: Mapping[str, str]
) -> tuple[tuple[Cable, ...], tuple[Far, ...], tuple[Finding, ...]]:
    """The cables, the far nodes that are not listed themselves, and what is odd about the listing.

    ``names`` calls nodes in findings; ids that it lacks stand for themselves.
    """
    listed = {node.id: node for node in network.nodes}
    sides: defaultdict[tuple[End, End], _Sides] = defaultdict(_Sides)
    far_of: dict[str, Far] = {}
    for node in network.nodes:
        for port in node.ports:
            if port.far is None or port.far_port is None or port.far == node.id:
                continue
            near, other = (node.id, port.number), (port.far, port.far_port)
            side = sides[min(near, other), max(near, other)]
            side.lines.append(port.line)
            side.rates.append(port.rate)
            side.near.add(near)
            if port.far not in listed:
                far_of.setdefault(port.far, Far(port.far, port.far_kind, port.far_description))
    kept = _without_conflicts(sides)
    cables = tuple(Cable(ends, _lower(side.rates)) for ends, side in kept.items())
    whole = {n.id for n in network.nodes if n.ports} if network.style == "ports" else set(listed)
    findings = (
        *_conflicts(sides.keys() - kept.keys(), sides, names),
        *_one_sided(kept, whole, names),
        *_disagreeing(kept, names),
        *_unlisted(far_of.values()),
    )
    return cables, tuple(far_of.values()), findings


def _lower(rates: Sequence[Rate | None]) -> Rate | None:
    known = [rate for rate in rates if rate is not None]
    return min(known, key=lambda rate: rate.data_GBps) if known else None


def _without_conflicts(sides: Mapping[tuple[End, End], _Sides]) -> dict[tuple[End, End], _Sides]:
    """At most one cable in a port: of several, the one that both ends list, else the first."""
    taken: set[End] = set()
    kept = {}
    for ends, side in sorted(
        sides.items(), key=lambda item: (-len(item[1].near), item[1].lines[0])
    ):
        if not taken & set(ends):
            kept[ends] = side
            taken |= set(ends)
    return {ends: kept[ends] for ends in sides if ends in kept}


def _said(ends: tuple[End, End], names: Mapping[str, str]) -> str:
    (a, p), (b, q) = ends
    return f"{names.get(a, a)} port {p} – {names.get(b, b)} port {q}"


def shortened(items: Sequence[str]) -> tuple[str, ...]:
    """The first of ``items`` as evidence, and how many more there are."""
    more = len(items) - _SHOWN
    return (*items[:_SHOWN], f"… and {more} more") if more > 0 else tuple(items)


def _conflicts(
    dropped: Set[tuple[End, End]],
    sides: Mapping[tuple[End, End], _Sides],
    names: Mapping[str, str],
) -> list[Finding]:
    lines = [
        f"line {sides[ends].lines[0]}: {_said(ends, names)}" for ends in sides if ends in dropped
    ]
    if not lines:
        return []
    return [
        Finding(
            "port_with_two_cables",
            Severity.WARNING,
            ("these contradict what other lines say of the same ports:", *shortened(lines)),
            "run ibnetdiscover again: the listing was put together from different moments or files",
        )
    ]


def _one_sided(
    kept: Mapping[tuple[End, End], _Sides], whole: set[str], names: Mapping[str, str]
) -> list[Finding]:
    lines = [
        f"line {side.lines[0]}: {_said(ends, names)}"
        for ends, side in kept.items()
        if len(side.near) == 1 and {end[0] for end in ends} <= whole
    ]
    if not lines:
        return []
    return [
        Finding(
            "one_sided_links",
            Severity.WARNING,
            (f"{len(lines)} links are listed by one end only:", *shortened(lines)),
            "kept as links; if they flap, check the cables, else run ibnetdiscover again",
        )
    ]


def _disagreeing(kept: Mapping[tuple[End, End], _Sides], names: Mapping[str, str]) -> list[Finding]:
    lines = []
    for ends, side in kept.items():
        said = sorted({rate.name for rate in side.rates if rate is not None})
        if len(said) > 1:
            lines.append(f"line {side.lines[0]}: {_said(ends, names)}: {' and '.join(said)}")
    if not lines:
        return []
    return [
        Finding(
            "ends_disagree_on_rate",
            Severity.WARNING,
            shortened(lines),
            "the lower rate was taken; the link may have retrained during the scan: run it again",
        )
    ]


def _unlisted(nodes: Collection[Far]) -> list[Finding]:
    if not nodes:
        return []
    return [
        Finding(
            "nodes_without_entry",
            Severity.INFO
            if all("Aggregation Node" in n.description for n in nodes)
            else Severity.WARNING,
            (
                f"{len(nodes)} nodes are known from the other end of a cable only:",
                *shortened([f"{n.id} {n.description}".strip() for n in nodes]),
            ),
            "import the whole output of ibnetdiscover: this one was cut",
        )
    ]


def reading_findings(network: IbNetwork) -> list[Finding]:
    """What the reader could not use: broken lines, repeated nodes, errors of the scan."""
    found = []
    if network.unread:
        lines = [f"line {item.line}: {item.text[:120]}" for item in network.unread]
        found.append(
            Finding(
                "unread_lines",
                Severity.WARNING,
                (
                    f"{len(lines)} lines begin as a node or port and do not go on so:",
                    *shortened(lines),
                ),
                "save the output again without editing or wrapping its lines",
            )
        )
    if network.repeated:
        lines = [f"line {item.line}: {item.text[:120]}" for item in network.repeated]
        found.append(
            Finding(
                "repeated_nodes",
                Severity.WARNING,
                (f"{len(lines)} nodes are listed again:", *shortened(lines)),
                "the first entry of each was taken; import one subnet's output at a time",
            )
        )
    if network.scan_errors:
        lines = [f"line {item.line}: {item.text[:160]}" for item in network.scan_errors]
        found.append(
            Finding(
                "scan_errors",
                Severity.WARNING,
                (f"ibnetdiscover reported {len(lines)} errors:", *shortened(lines)),
                "nodes behind these ports are missing here; look at the ports it names",
            )
        )
    return found
