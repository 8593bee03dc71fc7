"""What breaking something took away: cables, GB/s, the hosts and rails behind them, pairs cut. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.connected import reach
from clusterlab.topology.failures.faults import Connection, find_faults, natural
from clusterlab.topology.parts import SWITCH_KINDS


@dataclass(frozen=True, slots=True)
class Loss:
    """Cables of one class that went down or lost a part. ``lost_GBps`` is per direction.

    ``unknown`` connections have cables whose rate no source says; they are not in ``lost_GBps``.
    """

    link_class: str
    down: int
    degraded: int
    lost_GBps: float
    unknown: int


@dataclass(frozen=True, slots=True)
class Damage:
    """The difference between a fabric and the same fabric broken.

    ``hosts`` have a broken link of their own or one above them; ``rails`` are those of the network
    links concerned. ``pairs_cut`` of ``pairs`` pairs of GPUs (of hosts and NICs where there are no GPUs)
    no longer reach each other; ``alone`` are those that reach nobody any more.
    """

    losses: tuple[Loss, ...]
    hosts: tuple[str, ...]
    rails: tuple[int, ...]
    pairs: int
    pairs_cut: int
    alone: tuple[str, ...]

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
    return Damage(
        losses=_losses(new, old),
        hosts=tuple(sorted(_hosts(after, new), key=natural)),
        rails=tuple(sorted({c.rail for c in outside if c.rail is not None})),
        pairs=reached.pairs,
        pairs_cut=reached.pairs - reaches.pairs,
        alone=tuple(name for name in reaches.alone if name not in already),
    )


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
    return tuple(Loss(name, down[name], degraded[name], lost[name], unknown[name]) for name in down)


def _hosts(fabric: Fabric, new: Iterable[Connection]) -> set[str]:
    """Hosts that own an end, or whose way up leads through a switch that does."""
    found: set[str] = set()
    reached: set[str] = set()
    ahead: list[str] = []
    for c in new:
        owners = [fabric.host_of(end) for end in (c.a, c.b)]
        found |= {host for host in owners if host is not None}
        if owners == [None, None]:
            ahead.append(c.a)  # the lower end: what stands above it still serves its other links
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
