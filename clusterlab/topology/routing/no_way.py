"""Why nothing leads from one device to another, in words a person can act on."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.formats.hostlist import compress_hostlist
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.network import Network
from clusterlab.topology.routing.nics import leading_out, links_out, why_not

Side = tuple[str, Sequence[str]]
"""A device and where it enters the network, first choice first."""


def no_way(fabric: Fabric, network: Network | None, src: Side, dst: Side) -> str:
    """Why no path joins the two: the first side that does not get out, else the network between."""
    for name, ends in (src, dst):
        why = _no_exit(fabric, name, ends)
        if why is not None:
            return why
    if network is None:
        return f"fabric {fabric.name} has no switches, and no cable joins the two"
    for name, ends in (src, dst):
        if not any(end in network.index for end in ends):
            return f"{name} has no cable to a switch"
    (a, *more), (b, *others) = ([e for e in side[1] if e in network.index] for side in (src, dst))
    also = ", nor between the other NICs of the two" if more or others else ""
    bare = [why for end in (a, b) if (why := _bare_switch(network, end)) is not None]
    text = f"no live path from {_placed(network, a)} to {_placed(network, b)}{also}"
    return "; ".join([text, *dict.fromkeys(bare)])


def _no_exit(fabric: Fabric, name: str, ends: Sequence[str]) -> str | None:
    """Why ``name`` does not get into the network; None where it does."""
    device = fabric.device(name)
    if device.kind == "nic" or links_out(fabric, name):
        return None if ends else why_not(fabric, name)
    if device.host is None:
        return f"{name} is not cabled"
    nics = [d.name for d in fabric.on_host(device.host, "nic")]
    if not nics:
        return f"{device.host} has no NIC"
    cabled = [nic for nic in nics if links_out(fabric, nic)]
    if not cabled:
        return f"no NIC of {device.host} is cabled"
    live = leading_out(fabric, device.host)
    if not live:
        return f"no NIC of {device.host} has a live link to the network ({_listed(cabled)} down)"
    return None if ends else f"{name} reaches no NIC that leads into the network ({_listed(live)})"


def _listed(names: Sequence[str]) -> str:
    return compress_hostlist(names)


def _placed(network: Network, end: str) -> str:
    switches = _switches(network, end)
    return f"{end} (on {', '.join(network.nodes[s] for s in switches)})"


def _bare_switch(network: Network, end: str) -> str | None:
    """That no cable leads on from the switches of an end point, where that is so."""
    every = [network.at(s) for s in _switches(network, end)]
    if any((network.live[of] & (network.low[of] < network.switches)).any() for of in every):
        return None
    names = ", ".join(network.nodes[s] for s in _switches(network, end))
    return f"{names} has no live cable to another switch"


def _switches(network: Network, end: str) -> list[int]:
    start, cables = network.up
    node = network.node(end)
    mine = cables[start[node] : start[node + 1]]
    return list(dict.fromkeys(network.high[mine[network.live[mine]]].tolist()))
