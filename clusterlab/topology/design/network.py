"""The ``network.clos`` part of a design: numbers to a generated leaf-spine-core network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.formats.fields import at, flag, mapping, number, sequence, text, whole
from clusterlab.formats.strict_yaml import Document, Path
from clusterlab.topology.design.clos import Clos, clos
from clusterlab.topology.design.parts import MAX_SINGLE_LINKS, LinkKind, limit
from clusterlab.topology.design.wiring import numbered
from clusterlab.topology.parts import ROLES, SWITCH_KINDS, Device, Link

_KEYS = (
    "role",
    "attach",
    "rails",
    "planes",
    "hosts_per_su",
    "spines",
    "cores",
    "sus_per_pod",
    "rail_groups",
    "uplinks",
    "core_uplinks",
    "ports",
    "models",
    "links",
    "oversubscription",
)


def generated_networks(
    document: Document,
    hosts: Sequence[str],
    template: Sequence[Device],
    kinds: Mapping[str, LinkKind],
) -> tuple[list[Device], list[Link], dict[str, float]]:
    """Switches, links and the declared leaf oversubscription by role of every ``network.clos`` entry."""
    devices: list[Device] = []
    links: list[Link] = []
    declared: dict[str, float] = {}
    for i in range(len(sequence(document, ("network", "clos")))):
        path: Path = ("network", "clos", i)
        shape = _shape(document, path, kinds)
        nics = _attached(document, path, template, shape.rails)
        _bounded(document, shape, len(hosts), sum(map(len, nics.values())))
        more_devices, more_links = clos(shape, hosts, nics, where=document.where(*path))
        devices += more_devices
        links += more_links
        ratio = number(document, (*path, "oversubscription"))
        if ratio is not None:
            declared[shape.role] = ratio
    return devices, links, declared


def _shape(document: Document, path: Path, kinds: Mapping[str, LinkKind]) -> Clos:
    mapping(document, path, _KEYS)
    role = text(document, (*path, "role"), default="compute")
    if role not in ROLES:
        raise unknown("role", role, ROLES, where=document.where(*path, "role"))
    spines = _count(document, (*path, "spines"))
    cores = _count(document, (*path, "cores"))
    tiers = ["leaf", *(["spine"] if spines else []), *(["core"] if cores else [])]
    return Clos(
        role=role,  # type: ignore[arg-type]  # one of ROLES, checked above
        hosts_per_su=whole(document, (*path, "hosts_per_su")),
        rails=None if at(document, (*path, "rails")) is None else whole(document, (*path, "rails")),
        planes=whole(document, (*path, "planes"), default=1),
        spines=spines,
        cores=cores,
        uplinks=whole(document, (*path, "uplinks")) if spines else 0,
        core_uplinks=whole(document, (*path, "core_uplinks")) if cores else 0,
        sus_per_pod=None
        if at(document, (*path, "sus_per_pod")) is None
        else whole(document, (*path, "sus_per_pod")),
        rail_groups=flag(document, (*path, "rail_groups")),
        ports=_by_tier(document, (*path, "ports")),
        models={
            tier: text(document, (*path, "models", tier))
            for tier in mapping(document, (*path, "models"), SWITCH_KINDS, optional=True)
        },
        kinds={tier: _kind(document, (*path, "links", tier), kinds) for tier in tiers},
    )


def _count(document: Document, path: Path) -> int:
    """A whole number, 0 allowed and the default."""
    return 0 if at(document, path) in (None, 0) else whole(document, path)


def _by_tier(document: Document, path: Path) -> dict[str, int]:
    tiers = mapping(document, path, SWITCH_KINDS, optional=True)
    return {tier: whole(document, (*path, tier)) for tier in tiers}


def _kind(document: Document, path: Path, kinds: Mapping[str, LinkKind]) -> LinkKind:
    name = text(document, path)
    if name not in kinds:
        raise unknown("link type", name, kinds, where=document.where(*path))
    return kinds[name]


def _attached(
    document: Document, path: Path, template: Sequence[Device], rails: int | None
) -> dict[int, list[str]]:
    """A host's NICs by rail; all under 0 where the network is not rail aligned."""
    pattern = text(document, (*path, "attach"))
    where = document.where(*path, "attach")
    rail_of = {d.name: d.rail for d in template if d.kind == "nic"}
    names = numbered(list(rail_of), pattern, where)
    if rails is None:
        return {0: [name for name, _ in names]}
    if rails > len(names):
        raise UsageError(
            f"{rails} rails for {len(names)} NICs of a host",
            where=where,
            expected="a NIC for every rail",
        )
    by_rail: dict[int, list[str]] = {}
    for name, own in names:
        rail = rail_of[name] if own is None else own
        if rail is None:
            raise UsageError(
                f"NIC {name} has no rail", where=where, expected="{i} in the pattern, or a rail"
            )
        by_rail.setdefault(rail, []).append(name)
    if set(by_rail) != set(range(rails)):
        raise UsageError(
            f"NICs of rails {sorted(by_rail)}",
            where=where,
            expected=f"one on each of {rails} rails",
        )
    return by_rail


def _bounded(document: Document, shape: Clos, hosts: int, nics: int) -> None:
    """Refuse what no switch could be wired to, before anything is made."""
    sus = -(-hosts // shape.hosts_per_su)
    leaves = sus * (shape.rails or 1) * shape.planes
    cables = (
        hosts * nics * shape.planes + leaves * shape.uplinks + shape.spines * shape.core_uplinks
    )
    limit(2 * cables, MAX_SINGLE_LINKS, "links", document)
    limit(leaves + shape.spines + shape.cores, MAX_SINGLE_LINKS, "switches", document)
