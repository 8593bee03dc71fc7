"""Where a group of ranks meets the network: its hosts in ring order, and the NICs each sends by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Ints, Network
from clusterlab.topology.routing.path_types import nic_of

NONE = -1


@dataclass(frozen=True, eq=False)
class Ends:
    """``hosts`` in the order of the group's first rank on each. ``nics`` [hosts, lanes]: node numbers of
    the network, NONE where a host has no live NIC for that lane; NICs of one lane talk to each other (a
    rail).
    """

    hosts: tuple[str, ...]
    nics: Ints


def ends_of(fabric: Fabric, network: Network, devices: Sequence[str]) -> Ends:
    """The ends of the group whose ranks are on ``devices``, in rank order.

    NCCL gives a host's channels all NICs that its GPUs are near to: those on the rails of the group's
    GPUs where both say their rail, else each GPU's nearest.
    """
    on: dict[str, list[str]] = {}
    for device in devices:
        on.setdefault(fabric.host_of(device) or device, []).append(device)
    live = _live_nodes(network)
    lanes: dict[tuple[object, ...], tuple[str, ...]] = {}
    rows = []
    for host, mine in on.items():
        locals_ = tuple(d.partition("/")[2] for d in mine)
        key = (fabric.template_of(host), locals_)
        if key not in lanes:
            lanes[key] = _lanes(fabric, host, mine)
        nodes = (network.index.get(f"{host}/{nic}", NONE) for nic in lanes[key])
        rows.append([n if n != NONE and live[n] else NONE for n in nodes])
    width = max(map(len, rows), default=0)
    nics = np.array([[*row, *[NONE] * (width - len(row))] for row in rows], dtype=np.int32)
    return Ends(tuple(on), nics.reshape(len(rows), width))


def _live_nodes(network: Network) -> NDArray[np.bool_]:
    """Whether any cable of a node is left."""
    if "live nodes" not in network.memo:
        found = np.zeros(len(network.nodes), dtype=bool)
        found[network.low[network.live]] = True
        network.memo["live nodes"] = found
    live: NDArray[np.bool_] = network.memo["live nodes"]
    return live


def _lanes(fabric: Fabric, host: str, devices: Sequence[str]) -> tuple[str, ...]:
    """Local names of the NICs that ranks on ``devices`` of one host send by, lane after lane."""
    nics = [d for d in fabric.on_host(host, "nic") if d.role in (None, "compute")]
    mine = [fabric.device(d) for d in devices]
    rails = {d.rail for d in mine}
    if None not in rails and nics and all(nic.rail is not None for nic in nics):
        chosen = [nic.name for nic in nics if nic.rail in rails]
    else:
        chosen = []
    if not chosen:
        chosen = [nic for d in mine if (nic := nic_of(fabric, d.name)) is not None]
    local = (name.partition("/")[2] for name in dict.fromkeys(chosen))
    return tuple(local)
