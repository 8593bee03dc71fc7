"""What breaking something took away: cables, GB/s, the hosts and rails behind them, pairs cut. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.core.order import natural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.failures.detours import Detour, detours
from clusterlab.topology.failures.faults import Connection, find_faults
from clusterlab.topology.parts import SWITCH_KINDS


@dataclass(frozen=True, slots=True)
class Loss:
    """Cables of one class that went down or lost a part. ``lost_GBps`` is per direction; None where no
    source says what any of them carried.

    ``unknown`` connections have cables whose rate no source says; they are not in ``lost_GBps``.
    """

    link_class: str
    down: int
    degraded: int
    lost_GBps: float | None
    unknown: int


@dataclass(frozen=True, slots=True)
class Damage:
    """The difference between a fabric and the same fabric broken.

    ``hosts`` are concerned in some way, each in one of three: ``hosts_cut`` reach no other host any
    more, ``hosts_broken`` have a broken link of their own, ``hosts_sharing`` have only less of what
    they share with others above them. ``rails`` are those of the network links concerned.
    ``pairs_cut`` of ``pairs`` pairs of GPUs (of hosts and NICs where there are no GPUs) no longer reach
    each other; ``alone`` are those that reach nobody any more. ``detours`` are how GPUs that lost their
    NIC get out.
    """

    losses: tuple[Loss, ...]
    hosts: tuple[str, ...]
    hosts_cut: tuple[str, ...]
    hosts_broken: tuple[str, ...]
    hosts_sharing: tuple[str, ...]
    rails: tuple[int, ...]
    pairs: int
    pairs_cut: int
    alone: tuple[str, ...]
    detours: tuple[Detour, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def damage(before: Fabric, after: Fabric) -> Damage:
    """What ``after``, made by breaking ``before``, has lost."""
    old = {(c.a, c.b, c.link_class): c for c in find_faults(before).hurt}
    new = [c for c in find_faults(after).hurt if old.get((c.a, c.b, c.link_class)) != c]
    outside = [c for c in new if _in_network(after, c)]
    reached, reaches = reach(before), reach(after)
    already = set(reached.alone)
    cut = set(reaches.shut_in) - set(reached.shut_in)
    broken = {host for c in new for end in (c.a, c.b) if (host := after.host_of(end)) is not None}
    below = _hosts_below(
        after, [c for c in new if not {after.host_of(c.a), after.host_of(c.b)} - {None}]
    )
    return Damage(
        losses=_losses(new, old),
        hosts=_in_order(cut | broken | below),
        hosts_cut=_in_order(cut),
        hosts_broken=_in_order(broken - cut),
        hosts_sharing=_in_order(below - broken - cut),
        rails=tuple(sorted({c.rail for c in outside if c.rail is not None})),
        pairs=reached.pairs,
        pairs_cut=reached.pairs - reaches.pairs,
        alone=tuple(name for name in reaches.alone if name not in already),
        detours=detours(before, after, new),
    )


def _in_order(hosts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(hosts, key=natural))


def _in_network(fabric: Fabric, connection: Connection) -> bool:
    host = fabric.host_of(connection.a)
    return host is None or host != fabric.host_of(connection.b)


def _losses(
    new: Iterable[Connection], old: dict[tuple[str, str, str], Connection]
) -> tuple[Loss, ...]:
    down: Counter[str] = Counter()
    degraded: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    lost: defaultdict[str, float] = defaultdict(float)
    for c in new:
        was = old.get((c.a, c.b, c.link_class))
        down[c.link_class] += c.down - (was.down if was else 0)
        degraded[c.link_class] += max(0, c.degraded - (was.degraded if was else 0))
        if c.lost_GBps is None:
            unknown[c.link_class] += 1
        else:
            lost[c.link_class] += c.lost_GBps - ((was.lost_GBps or 0.0) if was else 0.0)
    return tuple(
        Loss(name, down[name], degraded[name], lost.get(name), unknown[name]) for name in down
    )


def _hosts_below(fabric: Fabric, between_switches: Iterable[Connection]) -> set[str]:
    """Hosts whose way up leads through the lower end of one of these connections: what stands above it
    still serves its other links.
    """
    found: set[str] = set()
    ahead = [c.a for c in between_switches]
    reached: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in reached:
            continue
        reached.add(name)
        for link in fabric.links_from(name):
            host = fabric.host_of(link.dst)
            if host is not None:
                found.add(host)
            elif _tier(fabric, link.dst) < _tier(fabric, name):
                ahead.append(link.dst)
    return found


def _tier(fabric: Fabric, name: str) -> int:
    kind = fabric.device(name).kind
    return SWITCH_KINDS.index(kind) if kind in SWITCH_KINDS else -1
