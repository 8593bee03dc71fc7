"""The kind of link that messages (all_to_all, send_recv, send) keep busiest, and for how long."""

from __future__ import annotations

from collections.abc import Sequence

from clusterlab.core.errors import UsageError
from clusterlab.cost.effects.features import IN_PARTS, message_wire_us
from clusterlab.cost.estimate import Group, on_links
from clusterlab.cost.nccl.busiest import NICS, Busiest
from clusterlab.cost.nccl.case import Case
from clusterlab.cost.nccl.communicator import Communicator
from clusterlab.cost.schedules.direct import (
    direct_all_to_all,
    direct_gather,
    direct_scatter,
    one_message,
    ring_shift,
)
from clusterlab.cost.schedules.schedule import Schedule
from clusterlab.topology.fabric import Fabric


def message_limit(
    fabric: Fabric, case: Case, size_bytes: float, groups: Sequence[Group]
) -> Busiest:
    """Of ``case``'s group beside the others of ``groups``, at full rate.

    On a mesh, and where groups share a node, every message is laid on the links it takes; on NVSwitches, PCIe
    and between nodes all of a GPU's or a node's links carry them together.
    """
    comm = case.comm
    if comm.nodes > 1:
        return Busiest(
            NICS, message_wire_us(comm, case.collective, size_bytes) / case.nic_share("direct")
        )
    name = {"nvlink": "NVLink", "xgmi": "xGMI", "pcie": "PCIe"}[comm.intra]
    if len(groups) > 1 or _meshed(comm):
        schedules = [(_schedule(case.collective, g, size_bytes), g) for g in groups]
        try:
            links = on_links(schedules, fabric, avoid=_PCIE if _meshed(comm) else frozenset())
        except UsageError:  # no link of its own between some pair: NCCL goes through a GPU that has
            rate = comm.graphs["ring"].intra_GBps * 1e3
            alone_us = size_bytes / rate if case.collective not in IN_PARTS else 0.0
            spread_us = message_wire_us(comm, case.collective, size_bytes)
            return Busiest(name, max(alone_us, spread_us))
        if links.busiest is not None:
            return Busiest(links.busiest, links.transfer_us)
    return Busiest(name, message_wire_us(comm, case.collective, size_bytes))


_PCIE = frozenset({"pcie", "upi"})


def _meshed(comm: Communicator) -> bool:
    return comm.intra != "pcie" and comm.switch_GBps is None and comm.ranks > 1


def _schedule(name: str, group: Group, size_bytes: float) -> Schedule:
    n = len(group.ranks)
    if name == "all_to_all":
        return direct_all_to_all(n, size_bytes)
    if name in ("gather", "scatter"):
        rooted = direct_gather if name == "gather" else direct_scatter
        return rooted(n, size_bytes, root=group.root)
    return ring_shift(n, size_bytes) if name == "send_recv" else one_message(size_bytes)
