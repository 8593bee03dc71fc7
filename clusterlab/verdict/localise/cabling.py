"""A fabric as a field to search: its components, and the ways of what ranks send over it. Pure.

Resources: each direction of each cable, the cores of each host and their pace, each rank (its GPU and what
leads to it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from clusterlab.core.placement import Placement
from clusterlab.cost.flows.crossing import Routing
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.path_types import nic_of
from clusterlab.verdict.localise.crossed import components_of
from clusterlab.verdict.localise.types import Components, Longs

NONE = -1

_Named = tuple[str, str, float, Sequence[int], tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Field:
    """``nodes`` [ranks]: the network's node that each rank sends by, NONE where it has none; ``host``
    [ranks] numbers ``hosts``. ``routing``: how switches choose among equal ways. ``one_way``: whether
    messages one way are measured, so that the directions of a cable can be told apart.
    """

    fabric: Fabric
    network: Network
    hosts: tuple[str, ...]
    host: Longs
    nodes: Longs
    devices: tuple[str, ...]
    routing: Routing
    one_way: bool = False

    @property
    def cables(self) -> int:
        """How many: resource c is cable c upward, ``cables`` + c downward."""
        return len(self.network.low)

    @property
    def resources(self) -> int:
        """How many in all."""
        return 2 * self.cables + 2 * len(self.hosts) + len(self.host)

    def cores_of(self, host: int) -> int:
        """The resource of a host's cores."""
        return 2 * self.cables + host

    def clock_of(self, host: int) -> int:
        """The resource of the pace of a host's cores."""
        return 2 * self.cables + len(self.hosts) + host

    def rank(self, rank: int) -> int:
        """The resource of a rank."""
        return 2 * self.cables + 2 * len(self.hosts) + rank

    @cached_property
    def components(self) -> Components:
        """What may be at fault in it."""
        return components_of(list(_components(self)), self.resources)


def field_of(
    fabric: Fabric,
    placement: Placement,
    routing: Routing,
    *,
    nics: Sequence[str | None] | None = None,
    one_way: bool = False,
) -> Field:
    """``placement``'s ranks, whose devices are on ``fabric``. ``nics``: what each rank really sends by, where
    that is known; else the one next to its device.
    """
    network = network_of(fabric)
    devices = tuple(str(r.device) for r in placement.ranks)
    own = nics or [nic_of(fabric, device) for device in devices]
    hosts = tuple(dict.fromkeys(fabric.host_of(d) or d for d in devices))
    number = {host: i for i, host in enumerate(hosts)}
    return Field(
        fabric,
        network,
        hosts,
        np.array([number[fabric.host_of(d) or d] for d in devices], dtype=np.int64),
        np.array(
            [NONE if nic is None else network.index.get(nic, NONE) for nic in own], dtype=np.int64
        ),
        devices,
        routing,
        one_way,
    )


def _components(field: Field) -> Iterator[_Named]:
    network = field.network
    every = np.arange(field.cables)
    end = network.low >= network.switches

    def both(cables: Sequence[int]) -> list[int]:
        return [*cables, *(c + field.cables for c in cables)]

    for c in every.tolist():
        yield from _cable(field, c)
    for (low, high), mine in _bundles(network).items():
        if len(mine) > 1:
            name = f"all {len(mine)} cables {network.nodes[low]} ↔ {network.nodes[high]}"
            yield name, "bundle", 0.5, both(mine), _links(network, mine[:1])
    for switch in range(network.switches):
        up = np.flatnonzero((network.low == switch) & ~network.level).tolist()
        down = np.flatnonzero((network.high == switch) & ~network.level).tolist()
        level = np.flatnonzero(network.level & ((network.low == switch) | (network.high == switch)))
        name = network.nodes[switch]
        yield f"switch {name}", "switch", 1.0, both([*up, *down, *level.tolist()]), ()
        if len(up) > 1 and down:
            yield f"all uplinks of {name}", "ports", 0.5, both(up), ()
        if len(down) > 1 and up:
            yield f"all downlinks of {name}", "ports", 0.5, both(down), ()
    yield from _hosts(field, every[end])
    yield from _rails(field, every[end])


def _cable(field: Field, cable: int) -> Iterator[_Named]:
    network, down = field.network, cable + field.cables
    low, high = int(network.low[cable]), int(network.high[cable])
    of_nic = low >= network.switches
    a, b = network.nodes[low], network.nodes[high]
    number = "" if len(network.between(low, high)) == 1 else f"#{network.number[cable]}"
    links = _links(network, [cable])
    kind = "nic" if of_nic else "cable"
    yield f"{a} ↔ {b}{number}", kind, 1.0, [cable, down], links[:1]
    if field.one_way:
        yield f"{a} → {b}{number}", "direction", 0.5, [cable], (f"{a}->{b}",)
        yield f"{b} → {a}{number}", "direction", 0.5, [down], (f"{b}->{a}",)


def _links(network: Network, cables: Sequence[int]) -> tuple[str, ...]:
    return tuple(
        f"{network.nodes[int(network.low[c])]}->{network.nodes[int(network.high[c])]}"
        for c in cables
    )


def _bundles(network: Network) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for c, ends in enumerate(zip(network.low.tolist(), network.high.tolist(), strict=True)):
        found.setdefault(ends, []).append(c)
    return found


def _hosts(field: Field, end_cables: Longs) -> Iterator[_Named]:
    """Each host by all that it sends by, and by its cores; each rank."""
    network = field.network
    place = {host: i for i, host in enumerate(field.hosts)}
    nics: list[list[int]] = [[] for _ in field.hosts]
    for c in end_cables.tolist():
        host = field.fabric.host_of(network.nodes[int(network.low[c])])
        if host in place:
            nics[place[host]] += [c, c + field.cables]
    for host, i in place.items():
        yield f"host {host}, its cores", "host", 0.5, [field.cores_of(i)], ()
        yield f"host {host}, the clock of its cores", "host", 0.5, [field.clock_of(i)], ()
        if nics[i]:
            ranks = [field.rank(r) for r in np.flatnonzero(field.host == i).tolist()]
            yield f"host {host}", "host", 0.9, [*nics[i], *ranks], ()
        if len(nics[i]) > 2:
            yield f"host {host}, all its NICs", "host", 0.5, nics[i], ()
    for (node, _), mine in _several(network, end_cables).items():
        yield f"NIC {network.nodes[node]}", "nic", 1.0, mine, _links(network, mine[:1])
    for rank in range(len(field.host)):
        name = field.devices[rank]
        yield f"rank {rank} ({name})", "rank", 0.5, [field.rank(rank)], ()


def _several(network: Network, end_cables: Longs) -> dict[tuple[int, int], list[int]]:
    """Both directions of the cables of NICs that have more than one."""
    found: dict[tuple[int, int], list[int]] = {}
    for c in end_cables.tolist():
        found.setdefault((int(network.low[c]), 0), []).append(c)
    cables = len(network.low)
    return {k: [*v, *(c + cables for c in v)] for k, v in found.items() if len(v) > 1}


def _rails(field: Field, end_cables: Longs) -> Iterator[_Named]:
    """All NICs of a rail, where NICs say which they are on."""
    network = field.network
    rails: dict[int, list[int]] = {}
    for c in end_cables.tolist():
        rail = field.fabric.device(network.nodes[int(network.low[c])]).rail
        if rail is not None:
            rails.setdefault(rail, []).extend((c, c + field.cables))
    if len(rails) > 1:
        for rail, cables in sorted(rails.items()):
            yield f"rail {rail}", "rail", 0.5, cables, ()
