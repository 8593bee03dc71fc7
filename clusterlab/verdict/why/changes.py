"""Machines with one thing changed: what is left of the NICs, of the links inside, of the transport. Pure."""

from __future__ import annotations

from dataclasses import replace

from clusterlab.cost.effects.constants import Effects
from clusterlab.cost.effects.features import gpu_link_GBps
from clusterlab.cost.nccl.beyond_nics import BeyondNics
from clusterlab.verdict.why.world import World


def with_nic_share(world: World, share: float) -> World:
    """``share`` of what the NICs carry between nodes is left."""
    beyond = world.case.beyond
    left = BeyondNics(
        replace(beyond.ring, share=beyond.ring.share * share),
        replace(beyond.tree, share=beyond.tree.share * share),
    )
    return replace(world, case=replace(world.case, beyond=left))


def with_network_step(world: World, more_us: float) -> World:
    """Every step between nodes takes ``more_us`` µs longer."""

    def slower(effects: Effects) -> Effects:
        return replace(
            effects,
            network_step_us=effects.network_step_us + more_us,
            p2p_network_us=effects.p2p_network_us + more_us,
        )

    case = world.case
    return replace(
        world,
        case=replace(
            case,
            effects=slower(case.effects),
            effects_with_peers=slower(case.effects_with_peers),
        ),
    )


def with_link_share(world: World, share: float) -> World:
    """``share`` of what the links inside a node carry is left on the slowest, which all wait for."""
    comm = world.comm
    graphs = {
        name: replace(graph, intra_GBps=graph.intra_GBps * share)
        for name, graph in comm.graphs.items()
    }
    links = gpu_link_GBps(comm) * share
    slower = replace(
        comm, graphs=graphs, switch_GBps=links if comm.intra == "nvlink" else comm.switch_GBps
    )
    return replace(world.with_comm(slower), wire=world.wire / share)


def over_sockets(world: World) -> World | None:
    """The same NICs speaking TCP; None where they do already, or there are none."""
    comm = world.comm
    if comm.network is None or comm.nodes < 2 or comm.network.transport == "tcp":
        return None
    network = replace(comm.network, transport="tcp", gdr=False)
    return world.with_comm(replace(comm, network=network))


def without_gdr(world: World) -> World | None:
    """The same NICs, which do not reach GPU memory; None where they do not anyway."""
    comm = world.comm
    if comm.network is None or comm.nodes < 2 or not comm.network.gdr:
        return None
    if comm.network.transport in ("tcp", "tcpx", "tcpxo"):
        return None
    return world.with_comm(replace(comm, network=replace(comm.network, gdr=False)))


def with_all_nics(world: World) -> tuple[World, str]:
    """Where one GPU is all that a node has, and reaches fewer NICs than the node has: as if all carried its
    traffic, and what was idle in words. Else the same world, and no words.
    """
    comm = world.comm
    network = comm.network
    if network is None or comm.nodes < 2 or comm.ranks_per_node > 1 or network.nics < 2:
        return world, ""
    fabric = world.request.fabric
    device = world.request.groups[0][0]
    if len(fabric.on_host(device.host, "gpu")) > 1:
        return world, ""
    ring = comm.graphs["ring"]
    reached = ring.channels * ring.inter_GBps / network.nic_GBps
    if reached > _MOST_REACHED * network.nics:
        return world, ""
    words = f"{max(1, round(reached))} of {network.nics} NICs reached by the node's one GPU"
    return with_nic_share(world, network.nics / reached), words


_MOST_REACHED = 0.6
