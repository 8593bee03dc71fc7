"""What the user's variables take away makes nothing faster: constants and rates of the ways that are left.

The constants of ``effects/`` are fitted by class of GPU and of network, each class on machines of its own.
A variable moves a machine into another class (``pcie`` without peer access, ``staged`` without GPUDirect,
``tcp`` over sockets), whose constants may happen to be better: on faster machines, or unmeasured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from clusterlab.cost.effects.constants import (
    CHIP_CONSTANTS,
    NETWORK_CONSTANTS,
    Effects,
    EffectTable,
)
from clusterlab.cost.nccl.communicator import Communicator

SOCKETS_GBps = 2.0
"""What the sockets of one rank carry each way: NCCL moves their bytes by one thread a rank. 2.0 GB/s with
NCCL_NET=Socket (aws-samples/aws-do-eks, deployment/karpenter); 1.5 on Alps without its plugin, of NICs of 25
(eth-cscs/cscs-docs, software/communication/nccl).
"""


def hindered_effects(table: EffectTable, comm: Communicator, plain: Communicator) -> Effects:
    """The constants of ``comm``; of what the user took from ``plain``, none better than before."""
    now, before = table.of(comm), table.of(plain)
    lost: tuple[str, ...] = CHIP_CONSTANTS if comm.host_memory and not plain.host_memory else ()
    if not _lost_network(comm, plain):
        return replace(now, **_worse(now, before, lost))
    worse = _worse(now, before, (*lost, *NETWORK_CONSTANTS))
    # Messages over sockets or staged were not measured: they lose what the collectives lose.
    share = min(1.0, now.network_rate / before.network_rate)
    worse["p2p_network_rate"] = before.p2p_network_rate * share
    step_us = max(0.0, now.network_step_us - before.network_step_us)
    worse["p2p_network_us"] = before.p2p_network_us + step_us
    return replace(now, **worse)


@dataclass(frozen=True, slots=True)
class SocketShares:
    """Shares that sockets leave: of the rate of the graphs' channels between hosts, and of the NICs'."""

    channels: float = 1.0
    nics: float = 1.0


def socket_shares(comm: Communicator, plain: Communicator, effects: Effects) -> SocketShares:
    """Of a network that the user made ``comm`` speak TCP over; all of any other."""
    network = comm.network
    if network is None or not over_sockets(comm, plain):
        return SocketShares()
    carried = comm.ranks_per_node * SOCKETS_GBps / effects.network_rate
    ring = comm.graphs["ring"]
    return SocketShares(
        min(1.0, carried / (ring.channels * ring.inter_GBps)),
        min(1.0, carried / (network.nics * network.nic_GBps)),
    )


def over_sockets(comm: Communicator, plain: Communicator) -> bool:
    """Whether the user took the network's own transport away."""
    here, own = comm.network, plain.network
    return here is not None and own is not None and here.transport == "tcp" != own.transport


def _lost_network(comm: Communicator, plain: Communicator) -> bool:
    here, own = comm.network, plain.network
    if here is None or own is None:
        return False
    return over_sockets(comm, plain) or (own.gdr and not here.gdr)


def _worse(now: Effects, before: Effects, names: tuple[str, ...]) -> dict[str, float]:
    """Of each constant the worse: shares of a rate the lesser, times and ramps the greater."""
    found = {}
    for name in names:
        worst = min if "rate" in name else max
        found[name] = worst(getattr(now, name), getattr(before, name))
    return found
