"""What each leaf and spine carries down and up, nominal and live. Pure; any fabric with a network.

A link that is down (health 0) counts in the nominal figures only; one that is degraded counts as a link
and gives its share of GB/s. Links that a discovery did not see are not there at all: what is missing from
the pattern is for ``checks``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Device, DeviceKind, Link

_TIER: dict[str, int] = {"gpu": 0, "nic": 0, "host": 0, "leaf": 1, "spine": 2, "core": 3}


_FEWEST, _MOST = 3, 0.7
"""How many leaves, and what part of their kind, must have uplinks before one without is at fault."""


@dataclass(frozen=True, slots=True)
class Side:
    """Links of a switch in one direction of the tree and what they carry, GB/s (1e9 B/s) one way.

    ``GBps`` is None where a link's rate is unknown.
    """

    links: int
    GBps: float | None


@dataclass(frozen=True, slots=True)
class SwitchCapacity:
    """One switch: what goes down (towards hosts), up, and across to its own tier.

    ``beside`` are ports of another network's hosts (storage, management) on a switch of the compute
    network: cables that go down and count in no ratio.
    """

    name: str
    kind: DeviceKind
    rail: int | None
    down: Side
    up: Side
    across: Side
    nominal_down: Side
    nominal_up: Side
    beside: Side
    nominal_beside: Side

    @property
    def oversubscription(self) -> float | None:
        """Live down : up, in GB/s where all rates are known, else in links. None: nothing goes up."""
        return _ratio(self.down, self.up)

    @property
    def nominal_oversubscription(self) -> float | None:
        """As ``oversubscription``, with links that are down or degraded as if whole."""
        return _ratio(self.nominal_down, self.nominal_up)


def _ratio(down: Side, up: Side) -> float | None:
    if down.GBps is not None and up.GBps:
        return down.GBps / up.GBps
    return down.links / up.links if up.links else None


def switch_capacities(fabric: Fabric, kind: DeviceKind) -> tuple[SwitchCapacity, ...]:
    """The capacity of every switch of one kind, in the fabric's order. The SHARP node inside a switch is
    no host and does not count.
    """
    return tuple(_capacity(fabric, device) for device in fabric.of_kind(kind))


def leaf_capacities(fabric: Fabric) -> tuple[SwitchCapacity, ...]:
    """The capacity of every leaf."""
    return switch_capacities(fabric, "leaf")


def most_oversubscribed_leaf(fabric: Fabric) -> SwitchCapacity | None:
    """The leaf with the highest live down : up; None where no leaf has hosts and uplinks."""
    rated = [leaf for leaf in leaf_capacities(fabric) if _rated(leaf)]
    return max(rated, key=_oversubscription, default=None)


def worst_leaf(fabric: Fabric) -> SwitchCapacity | None:
    """The leaf that has lost the largest part of its uplinks, and of several the most oversubscribed.

    Lost is what is down, or absent where more than half of the leaves have the same number of uplinks.
    None where no leaf has hosts and uplinks.
    """
    cut = {leaf.name for leaf in leaves_without_uplink(fabric)}
    rated = [leaf for leaf in leaf_capacities(fabric) if _rated(leaf) or leaf.name in cut]
    if not rated:
        return None
    usual, agreeing = Counter(leaf.up.links for leaf in rated).most_common(1)[0]
    expected = usual if 2 * agreeing > len(rated) else 0

    def lost(leaf: SwitchCapacity) -> float:
        return 1 - leaf.up.links / max(leaf.nominal_up.links, expected, 1)

    return max(rated, key=lambda leaf: (lost(leaf), _oversubscription(leaf)))


def leaves_without_uplink(fabric: Fabric) -> tuple[SwitchCapacity, ...]:
    """Leaves with live hosts from which nothing goes up: all uplinks are down, or there are none though
    nearly all leaves of its kind have some. Kept in the fabric's memo.

    A leaf's kind is what most of its hosts serve, and whether it is on a rail: a switch of a storage network
    of its own need not go up.
    A leaf cabled to another switch, or to one that no source tells of, is not alone.
    """
    known: tuple[SwitchCapacity, ...] | None = fabric.memo.get("leaves without uplink")
    if known is None:
        leaves = [leaf for leaf in leaf_capacities(fabric) if leaf.down.links or leaf.beside.links]
        kind = {leaf.name: (_serves(fabric, leaf.name), leaf.rail is None) for leaf in leaves}
        every = Counter(kind[leaf.name] for leaf in leaves)
        joined = Counter(kind[leaf.name] for leaf in leaves if leaf.nominal_up.links)
        found = []
        for leaf in leaves:
            with_uplink, of_kind = joined[kind[leaf.name]], every[kind[leaf.name]]
            expected = with_uplink >= _FEWEST and with_uplink >= _MOST * of_kind
            alone = expected and not leaf.nominal_up.links and _only_hosts(fabric, leaf.name)
            if alone or (leaf.nominal_up.links and not leaf.up.links):
                found.append(leaf)
        known = fabric.memo["leaves without uplink"] = tuple(found)
    return known


def _serves(fabric: Fabric, leaf: str) -> str:
    """What most end points on a leaf serve; that of which nothing is known computes."""
    below = [fabric.device(k.dst) for k in fabric.links_from(leaf)]
    roles = Counter(
        d.role or "compute" for d in below if _TIER.get(d.kind) == 0 and d.role != "aggregation"
    )
    return max(roles, key=lambda role: (roles[role], role == "compute"), default="compute")


def _only_hosts(fabric: Fabric, leaf: str) -> bool:
    return all(_TIER.get(fabric.device(k.dst).kind) == 0 for k in fabric.links_from(leaf))


def _rated(leaf: SwitchCapacity) -> bool:
    return leaf.down.links > 0 and leaf.nominal_up.links > 0


def _oversubscription(leaf: SwitchCapacity) -> float:
    """Infinite for a leaf whose uplinks are all down."""
    ratio = leaf.oversubscription
    return math.inf if ratio is None else ratio


def _capacity(fabric: Fabric, switch: Device) -> SwitchCapacity:
    down: list[Link] = []
    up: list[Link] = []
    across: list[Link] = []
    beside: list[Link] = []
    for link in fabric.links_from(switch.name):
        other = fabric.device(link.dst)
        if other.role == "aggregation" or other.kind not in _TIER:
            continue
        step = _TIER[other.kind] - _TIER[switch.kind]
        if step < 0 and _serves_others(switch, other):
            beside.append(link)
        else:
            (across if step == 0 else up if step > 0 else down).append(link)
    return SwitchCapacity(
        name=switch.name,
        kind=switch.kind,
        rail=switch.rail,
        down=_live(down),
        up=_live(up),
        across=_live(across),
        nominal_down=_nominal(down),
        nominal_up=_nominal(up),
        beside=_live(beside),
        nominal_beside=_nominal(beside),
    )


def _serves_others(switch: Device, below: Device) -> bool:
    """Whether what hangs on a switch of the compute network is a host's port of another network."""
    return (
        _TIER[below.kind] == 0
        and switch.role in (None, "compute")
        and below.role not in (None, "compute")
    )


def _live(links: Iterable[Link]) -> Side:
    alive = [link for link in links if link.health > 0]
    return _side(alive, [_with_health(link) for link in alive])


def _nominal(links: Iterable[Link]) -> Side:
    every = list(links)
    return _side(every, [_whole(link) for link in every])


def _side(links: list[Link], rates: list[float | None]) -> Side:
    known = [rate for rate in rates if rate is not None]
    return Side(
        links=sum(link.multiplicity for link in links),
        GBps=sum(known) if len(known) == len(rates) else None,
    )


def _whole(link: Link) -> float | None:
    rate = link.GBps if link.GBps is not None else link.wire_GBps
    return None if rate is None else rate * link.multiplicity


def _with_health(link: Link) -> float | None:
    whole = _whole(link)
    return None if whole is None else whole * link.health
