"""How many channels NCCL's search gets out of a host's NICs, and how fast: dead and slow ones included.

NCCL searches on every host by itself, over the NICs it finds there with an active port, and a
communicator then takes the least of all hosts (initTransportsRank: the smallest nChannels and the
smallest speed). A NIC carries as many channels as its rate has room for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl_constants import MAX_RING_CHANNELS, SPEEDS_INTER_GBPS
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.repeated import Repeated
from clusterlab.topology.routing.host_graph import HostGraph, HostPath, PathType, host_graph
from clusterlab.topology.routing.nics import links_out

_LEAST_STEP = 0.49
"""The search goes on to a slower speed only above this share of the best one (ncclTopoCompute)."""


def host_channels(fabric: Fabric, host: str, gpus: Sequence[str]) -> tuple[int, float]:
    """(channels, GB/s of one) between ``host``, with ranks on ``gpus``, and other hosts.

    Infinite where no link on the way has a known rate. Raises UsageError where no NIC leads out.
    """
    graph = host_graph(fabric, host)
    ways = _ways(graph, host, gpus)
    if not ways:
        raise UsageError(
            f"no NIC of {host} leads into the network",
            where=f"fabric {fabric.name}",
            expected="links that are up between all ranks",
        )
    exits: dict[str, float] = {}
    rates: dict[str, float] = {}
    for (gpu, nic), path in ways.items():
        inside = _least_known(graph, path)
        exits[gpu] = max(exits.get(gpu, 0.0), inside)
        rates[nic] = max(rates.get(nic, 0.0), min(inside, graph.net_bw[nic]))
    channels, speed = _search(list(rates.values()))
    return channels, min(speed, slower_speed(sum(exits.values()) / channels))


def host_kinds(fabric: Fabric, gpus: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Of the hosts in ``gpus`` (their ranks' GPUs) one of each kind: same inside, same cables left."""
    links = fabric.links
    group_of = links.group_of if isinstance(links, Repeated) else {}
    seen = set()
    for host, ranks in gpus.items():
        inside = id(group_of[host]) if host in group_of else host
        local = tuple(name.removeprefix(f"{host}/") for name in ranks)
        cables = tuple(_cables(fabric, nic.name) for nic in fabric.on_host(host, "nic"))
        if (inside, local, cables) not in seen:
            seen.add((inside, local, cables))
            yield host


def _cables(fabric: Fabric, nic: str) -> tuple[tuple[float | None, bool], ...]:
    """What each of a NIC's cables carries, and whether the way back is up."""
    back = {k.src: k.health > 0 for k in fabric.links_to(nic)}
    return tuple((k.capacity_GBps, back.get(k.dst, False)) for k in links_out(fabric, nic))


def slower_speed(rate_GBps: float) -> float:
    """The fastest speed of NCCL's list that fits into ``rate_GBps``; below the list, the rate itself."""
    fitting = [s for s in SPEEDS_INTER_GBPS if s <= rate_GBps * (1 + 1e-9)]
    return fitting[0] if fitting else rate_GBps


def _ways(graph: HostGraph, host: str, gpus: Sequence[str]) -> dict[tuple[str, str], HostPath]:
    """The paths a host's traffic leaves by, GPU to NIC.

    Those nearer than PXN, from whatever GPU. A GPU that has none sends over NVLink to one that has
    (PXN); without such a neighbour it takes its nearest NICs.
    """
    nics = graph.network_nics(host)
    paths = {(g, n): graph.path(g, n) for g in gpus for n in nics}
    near = {pair: path for pair, path in paths.items() if path.type < PathType.PXN}
    served = {g for g, _ in near}
    for gpu in gpus:
        if any(graph.path(gpu, peer).type <= PathType.NVL for peer in served):
            continue  # itself, or a neighbour on NVLink
        reached = {n: paths[gpu, n].type for n in nics if paths[gpu, n].type < PathType.DIS}
        least = min(reached.values(), default=PathType.DIS)
        near |= {(gpu, n): paths[gpu, n] for n, kind in reached.items() if kind == least}
    return near


def _least_known(graph: HostGraph, path: HostPath) -> float:
    """The least known rate on a path inside a host; infinite where none is known."""
    rates = [
        edge.bw
        for a, b in zip(path.nodes, path.nodes[1:], strict=False)
        for edge in graph.edges.get(a, ())
        if edge.to == b and edge.bw > 0
    ]
    return min(rates, default=math.inf)


def _search(rates_GBps: Sequence[float]) -> tuple[int, float]:
    """ncclTopoCompute's choice for NICs of these rates: most bandwidth, of equal ones the fastest.

    From the fastest speed down; slower ones are tried as long as they are near half of the best.
    """
    channels, speed = 0, 0.0
    for s in SPEEDS_INTER_GBPS:
        if channels and s < _LEAST_STEP * speed:
            break
        # Two channels on one NIC only below the list's top speed: a faster NIC is not split in it.
        room = sum(int(min(r, SPEEDS_INTER_GBPS[0]) / s + 1e-9) for r in rates_GBps)
        room = min(room, MAX_RING_CHANNELS)
        if room * s > channels * speed * (1 + 1e-9):
            channels, speed = room, s
    return (channels, speed) if channels else (len(rates_GBps), min(rates_GBps))
