"""Links between two things that are drawn, added up, and how a picture says them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from clusterlab.topology.drawing.words import GBps_text, plural
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.parts import Link

_TIERS = {"leaf": 1, "spine": 2, "core": 3}


@dataclass(frozen=True, slots=True)
class Bundle:
    """Cables from ``low`` to ``high``, both directions counted once.

    ``GBps`` is what they carry when whole, ``live_GBps`` now (None: unknown); ``bad`` cables are down or
    degraded, ``down`` of them down.
    """

    low: str
    high: str
    cables: int
    bad: int
    down: int
    GBps: float | None
    live_GBps: float | None
    rail: int | None

    @property
    def whole_text(self) -> str:
        """``8 cables, 384 GB/s``: with nothing down."""
        return f"{plural(self.cables, 'cable')}, {GBps_text(self.GBps)}"

    @property
    def text(self) -> str:
        """As ``whole_text``; of a hurt one what is left."""
        if not self.bad:
            return self.whole_text
        if self.down == self.cables:
            return f"{plural(self.cables, 'cable')} down"
        return f"{self.cables - self.bad} of {plural(self.cables, 'cable')}, {GBps_text(self.live_GBps)}"


def bundles(links: Iterable[Link], group_of: Mapping[str, str]) -> dict[tuple[str, str], Bundle]:
    """Links added up between groups, by (low, high): ``group_of`` names the group of each device drawn.

    Each cable is counted once, in the direction that begins at the first link's source, and with the
    worse of its two directions.
    """
    up: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        a, b = group_of.get(link.src), group_of.get(link.dst)
        if a is not None and b is not None and a != b:
            up.setdefault((a, b), []).append(link)
    found: dict[tuple[str, str], Bundle] = {}
    for (a, b), there in up.items():
        if (b, a) not in found:
            ways = [_added(a, b, there)]
            if (b, a) in up:
                ways.append(_added(a, b, up[b, a]))
            found[a, b] = max(ways, key=lambda bundle: (bundle.cables, bundle.bad, bundle.down))
    return found


def _added(low: str, high: str, links: list[Link]) -> Bundle:
    known = all(k.GBps is not None for k in links)
    rails = {k.rail for k in links}
    return Bundle(
        low=low,
        high=high,
        cables=sum(k.multiplicity for k in links),
        bad=sum(k.multiplicity for k in links if k.health < 1),
        down=sum(k.multiplicity for k in links if k.health == 0),
        GBps=sum((k.GBps or 0.0) * k.multiplicity for k in links) if known else None,
        live_GBps=sum(k.capacity_GBps or 0.0 for k in links) if known else None,
        rail=rails.pop() if len(rails) == 1 else None,
    )


def usual_text(found: Iterable[Bundle]) -> str:
    """What every line stands for, what each of two kinds of line does, or from what to what they go."""
    known = list(found)
    counts = Counter(bundle.whole_text for bundle in known)
    if not counts:
        return ""
    if len(counts) != 2:
        return f"each line: {ranged(known)}"
    return "; ".join(f"{plural(count, 'line')}: {text}" for text, count in counts.most_common())


def ranged(found: Sequence[Bundle]) -> str:
    """``256 cables, 12.3 TB/s``; the extremes where they differ."""
    counts = sorted({b.cables for b in found})
    rates = sorted({b.GBps for b in found if b.GBps is not None})
    first = f"{counts[0]:,} to " if len(counts) > 1 else ""
    text = f"{first}{plural(counts[-1], 'cable')}"
    if not rates or any(b.GBps is None for b in found):
        return f"{text}, {GBps_text(None)}"
    return f"{text}, {GBps_text(rates[0])}" + (
        f" to {GBps_text(rates[-1])}" if len(rates) > 1 else ""
    )


def tier_links(fabric: Fabric) -> list[Link]:
    """The network's links, those that lead up the tree (host to leaf to spine to core) first, so that
    bundles begin below. Kept in the fabric's memo.
    """
    known: list[Link] | None = fabric.memo.get("tier_links")
    if known is None:
        tier = {d.name: _TIERS.get(d.kind, 0) for d in fabric.network_devices}
        links = fabric.network_links
        down = [k for k in links if tier.get(k.src, 0) > tier.get(k.dst, 0)]
        up = [k for k in links if tier.get(k.src, 0) <= tier.get(k.dst, 0)]
        known = fabric.memo["tier_links"] = up + down
    return known


def links_of(fabric: Fabric, switches: Collection[str]) -> list[Link]:
    """The links of some switches, upward ones first."""
    into = [k for name in switches for k in fabric.links_to(name)]
    out = [k for name in switches for k in fabric.links_from(name) if k.dst not in switches]
    tier = {name: _TIERS.get(fabric.device(name).kind, 0) for name in switches}
    up = [k for k in into if tier.get(k.src, 0) <= tier[k.dst]]
    return [*up, *(k for k in into if tier.get(k.src, 0) > tier[k.dst]), *out]
