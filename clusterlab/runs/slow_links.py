"""The slow links behind a run's slow pairs: on the fabric it was predicted on, else host by host."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from clusterlab.core.errors import ClusterlabError
from clusterlab.core.findings import Finding, Severity
from clusterlab.core.placement import Placement
from clusterlab.core.rows import Row
from clusterlab.cost.flows.crossing import Routing
from clusterlab.cost.gloo.ways import gloo_ways
from clusterlab.cost.routing import routing_of
from clusterlab.records.documents import read_placement
from clusterlab.records.run_dir import RunDir
from clusterlab.records.store import latest_rows
from clusterlab.runs.run_fabric import fabric_of_run
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.match import place_like
from clusterlab.topology.routing.fluid import Crossing
from clusterlab.verdict.slow_links import Message, SlowLink, Step, slow_links

_WHOLE = 0.999
"""Of a flow's share: less of it means that switches spread it, and no one cable is its way."""

_MOST_RANKS = 256
"""Of more the ways alone are 65,000."""


def slow_link_findings(run: RunDir) -> tuple[Finding, ...]:
    """A finding for each link that makes pairs of ``run`` slow; empty for a run without pairs."""
    rows = _telling(latest_rows(run.records().rows).rows)
    placement = read_placement(run.path)
    if not rows or placement is None or placement.world_size > _MOST_RANKS:
        return ()
    if len(placement.hosts) == 1 and rows[0].backend == "gloo":
        return ()  # cores, not links: what is slow there changes from call to call
    fabric = fabric_of_run(run)
    return tuple(_finding(link, fabric) for link in slow_links(_messages(rows, placement, fabric)))


def _telling(rows: Sequence[Row]) -> list[Row]:
    """The one-way messages of the largest size: small ones tell of latency, both ways at once of either."""
    sent = [
        row
        for row in rows
        if row.collective == "send" and row.ranks is not None and row.algbw_GBps > 0
    ]
    largest = max((row.size_bytes for row in sent), default=0)
    last = {row.ranks: row for row in sent if row.size_bytes == largest}
    return list(last.values())


def _messages(rows: Sequence[Row], placement: Placement, fabric: Fabric | None) -> list[Message]:
    ways = _cabled(rows, placement, fabric) if fabric is not None else {}
    alone = len(set(placement.hosts)) == placement.world_size
    messages = []
    for row in rows:
        assert row.ranks is not None, "pairs only"
        a, b = (placement.ranks[rank] for rank in row.ranks)
        kind = "one host" if a.host == b.host else "between hosts"
        crossings = ways.get((a.rank, b.rank))
        if crossings is None:
            way, expected = _by_host(a.rank, a.host, b.rank, b.host, alone=alone), None
        else:
            way = tuple((c.link.src, c.link.dst) for c in crossings if _tells(c))
            rates = [c.link.GBps * c.link.multiplicity for c in crossings if c.link.GBps]
            # What the design says of whole links: one that it calls broken is slow all the same.
            expected = min(rates) if rates else None
        messages.append(Message((a.rank, b.rank), row.algbw_GBps, expected, kind, way))
    return messages


def _tells(crossing: Crossing) -> bool:
    """Links of unknown rate are what a lab only pretends; of a spread flow no cable has all."""
    return crossing.share >= _WHOLE and crossing.link.GBps is not None


def _cabled(
    rows: Sequence[Row], placement: Placement, fabric: Fabric
) -> dict[tuple[int, int], tuple[Crossing, ...]]:
    """The way of each row's message, from the NIC next to the sender's GPU to the receiver's."""
    with suppress(ClusterlabError):  # fewer hosts, or links that are down
        placed = place_like(fabric, placement)
        device = {r.rank: str(r.device) for r in placed.ranks}
        pairs = {r.ranks: (device[r.ranks[0]], device[r.ranks[1]]) for r in rows if r.ranks}
        routing: Routing = routing_of(fabric, rows[0].backend)
        ways = gloo_ways(fabric, list(pairs.values()), routing)
        return {(ranks[0], ranks[1]): tuple(ways[pair]) for ranks, pair in pairs.items()}
    return {}


def _by_host(a: int, host_a: str, b: int, host_b: str, *, alone: bool) -> tuple[Step, ...]:
    """Without a fabric: out of the rank, out of its host, and in again. ``alone``: a rank has its host to
    itself, so the two are one.
    """
    across: tuple[Step, ...] = ((host_a, "network"), ("network", host_b))
    if host_a == host_b:
        across = ()
    if alone:
        return across
    return ((f"rank {a}", host_a), *across, (host_b, f"rank {b}"))


def _finding(link: SlowLink, fabric: Fabric | None) -> Finding:
    names = [f"{a}->{b}" for a, b in link.steps]
    evidence = [link.sentence(), *_said_by(fabric, link.steps)]
    fix = (
        "look at its cable, its ports' rates and error counters (`ibstat`, `ethtool -S`, `perfquery`), and "
        "measure its pairs alone: --one-by-one"
    )
    return Finding(
        "SLOW_LINK", Severity.WARNING, tuple(evidence), fix, ranks=link.ranks, links=tuple(names)
    )


def _said_by(fabric: Fabric | None, steps: Sequence[Step]) -> list[str]:
    """Where the fabric's file calls such a link broken itself."""
    if fabric is None:
        return ["no fabric was named, or its file has changed: hosts are as near as pairs can tell"]
    return [
        f"{fabric.name} says {link.health:.0%} of it is left"
        for link in fabric.network_links
        if (link.src, link.dst) in steps and link.health < 1
    ]
