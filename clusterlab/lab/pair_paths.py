"""What the fabric says of every two NICs of a lab: the cables between them and the rate to expect. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterlab.lab.wires import DataNetwork, Nic
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Network, network_of
from clusterlab.topology.routing.policy import policy_named
from clusterlab.topology.routing.updown import Routes, route_pairs


@dataclass(frozen=True, slots=True)
class PairPath:
    """From NIC ``src`` to NIC ``dst`` of another node: ``cables`` in order, each by name and whether it is
    crossed upward. ``GBps`` is what software should get alone on them, 0 where no way leads.
    """

    src: Nic
    dst: Nic
    cables: tuple[tuple[str, bool], ...]
    GBps: float

    @property
    def name(self) -> str:
        """``n0/nic1 -> n2/nic0``."""
        return f"{self.src.node}/{self.src.name} -> {self.dst.node}/{self.dst.name}"


def pair_paths(fabric: Fabric, data: DataNetwork, policy: str) -> list[PairPath]:
    """Every ordered pair of NICs of different nodes. ``fabric`` is the one that ``data`` was made of."""
    network = network_of(fabric)
    pairs = [(a, b) for a in data.nics for b in data.nics if a.node != b.node]
    nodes = [[network.node(f"{nic.node}/{nic.name}") for nic in pair] for pair in pairs]
    src, dst = np.array(nodes, dtype=int).reshape(-1, 2).T
    routes = route_pairs(network, src, dst, policy_named(policy))
    return [_path(network, routes, i, pair) for i, pair in enumerate(pairs)]


def _path(network: Network, routes: Routes, pair: int, nics: tuple[Nic, Nic]) -> PairPath:
    length = int(routes.length[pair])
    cables = routes.cables[pair, :length]
    upward = ~routes.back[pair, :length]
    names = tuple(
        (network.cable_name(int(cable)), bool(up)) for cable, up in zip(cables, upward, strict=True)
    )
    rates = (_GBps(network, int(cable)) for cable in cables)
    return PairPath(*nics, names, min(rates) if length else 0.0)


def _GBps(network: Network, cable: int) -> float:
    """What software gets of a cable; its wire rate where the design says no more."""
    link = network.links[int(network.up_link[cable])]
    known = network.GBps[cable]
    rate = float(link.wire_GBps or 0.0) if np.isnan(known) else float(known)
    return rate * float(network.health[cable])


def rounds(paths: Sequence[PairPath]) -> list[list[PairPath]]:
    """The pairs in rounds in which no two share a cable in one direction: each has its rate to itself.

    Pairs that no way joins come last, all at once.
    """
    found: list[list[PairPath]] = []
    busy: list[set[tuple[str, bool]]] = []
    apart = []
    for path in paths:
        if not path.cables:
            apart.append(path)
            continue
        free = (i for i, cables in enumerate(busy) if cables.isdisjoint(path.cables))
        turn = next(free, len(found))
        if turn == len(found):
            found.append([])
            busy.append(set())
        found[turn].append(path)
        busy[turn].update(path.cables)
    return [*found, apart] if apart else found
