"""The communicator NCCL would build on a fabric, in closed form for equal hosts.

NCCL searches channels × speed; for symmetric boxes the result is known (agrees with NCCL's logs for
H100 with 1, 2, 4 and 8 GPUs per node): the fastest speed of its list that fills the link, then channels
doubled and speed halved where `ncclTopoDupChannels` does so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.core.errors import UsageError
from clusterlab.core.placement import RankPlacement
from clusterlab.cost.nccl_constants import MAX_RING_CHANNELS, SPEEDS_INTRA_GBPS
from clusterlab.cost.nccl_nics import host_channels, host_kinds, slower_speed
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.routing.fluid import ACCELERATOR_LINKS, Crossing, route


@dataclass(frozen=True, slots=True)
class Communicator:
    """``ranks`` on ``nodes`` hosts. Channels and GB/s per channel of the ring and of the tree.

    ``intra`` is the kind of link inside a host: nvlink or pcie.
    """

    ranks: int
    nodes: int
    intra: str
    channels: int
    ring_GBps: float
    tree_GBps: float

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each host (the fullest one)."""
        return -(-self.ranks // self.nodes)


def communicator(
    fabric: Fabric, group: Sequence[RankPlacement], devices: Sequence[str]
) -> Communicator:
    """NCCL's ring and tree over ``devices``; kept by the fabric, as NCCL keeps it for a communicator.

    Raises UsageError where no GPU or no path is.
    """
    key = ("nccl", tuple(devices))
    if key not in fabric.memo:
        fabric.memo[key] = _communicator(fabric, group, devices)
    found: Communicator = fabric.memo[key]
    return found


def _communicator(
    fabric: Fabric, group: Sequence[RankPlacement], devices: Sequence[str]
) -> Communicator:
    for rank, device in zip(group, devices, strict=True):
        if fabric.device(device).kind != "gpu":
            raise UsageError(
                f"rank {rank.rank} is on {device}, no GPU",
                where=f"fabric {fabric.name}",
                expected="backend nccl on GPUs",
                fix="use --backend gloo, or a fabric with GPUs",
            )
    hosts = Counter(r.host for r in group)
    n, nodes = len(group), len(hosts)
    per_node = max(hosts.values())
    intra, within_GBps = _within(fabric, group, devices) if per_node > 1 else ("nvlink", math.inf)
    if n == 1:
        return Communicator(1, 1, intra, 1, math.inf, math.inf)
    if nodes == 1:
        channels, speed = _fill(within_GBps, SPEEDS_INTRA_GBPS)
        # Of two GPUs a tree uses each link one way at a time: NCCL's search finds twice the speed.
        return Communicator(n, 1, intra, channels, speed, speed * (2 if n == 2 else 1))
    # On its way out a channel leaves one GPU of the host by the NIC instead of NVLink.
    through_GBps = within_GBps * per_node / max(1, per_node - 1)
    graphs = []
    for found, rate in _between(fabric, group, devices):
        speed = min(rate, slower_speed(through_GBps / found))
        graphs.append((*_duplicate(found, speed), speed))
    # Every host searches for itself; the communicator takes the least of each (initTransportsRank).
    channels, ring, speed = (min(values) for values in zip(*graphs, strict=True))
    return Communicator(n, nodes, intra, int(channels), ring, speed if nodes <= 2 else ring)


def _within(
    fabric: Fabric, group: Sequence[RankPlacement], devices: Sequence[str]
) -> tuple[str, float]:
    """Kind of link and GB/s out of the slowest GPU towards its neighbour on the same host."""
    rates = []
    kinds = set()
    for i, (rank, here) in enumerate(zip(group, devices, strict=True)):
        after = (i + 1) % len(group)
        if rank.host == group[after].host and after != i:
            crossings = route(fabric, here, devices[after])
            rates.append(_rate(crossings))
            kinds |= {c.link.link_class for c in crossings}
    if not rates:  # no two neighbours of the ring share a host
        return "nvlink", math.inf
    return ("nvlink" if kinds <= ACCELERATOR_LINKS else "pcie"), min(rates)


def _between(
    fabric: Fabric, group: Sequence[RankPlacement], devices: Sequence[str]
) -> list[tuple[int, float]]:
    """(channels, GB/s of one) between hosts, of every kind of host among them.

    Limited by the way from the first host's GPUs to their peers on the second as well: what lies
    between the NICs, or all of it where no NIC is crossed (NVLink between hosts, GPUs on a switch).
    """
    of_host: dict[str, list[str]] = {}
    for device in devices:  # the fabric's hosts: a run may know the machines by other names
        of_host.setdefault(fabric.host_of(device) or device, []).append(device)
    here, there, *_ = of_host.values()
    ways = [route(fabric, a, b) for a, b in zip(here, there, strict=False)]
    rates = [_rate(way) for way in ways]
    if not any(_nics_out(fabric, way) for way in ways):
        return [(1, slower_speed(min(rates)))]
    between_GBps = min(_between_switches(fabric, way) for way in ways)
    found = [host_channels(fabric, host, of_host[host]) for host in host_kinds(fabric, of_host)]
    return [(channels, min(speed, slower_speed(between_GBps))) for channels, speed in found]


def _nics_out(fabric: Fabric, way: Sequence[Crossing]) -> set[str]:
    """The NICs by which a route leaves its host."""
    ends = {(c.link.src, c.link.dst) for c in way if fabric.device(c.link.src).kind == "nic"}
    return {nic for nic, to in ends if fabric.host_of(nic) != fabric.host_of(to)}


def _between_switches(fabric: Fabric, way: Sequence[Crossing]) -> float:
    """What the links between switches leave to each NIC of a route; infinite where none is known."""
    rates = [
        c.link.capacity_GBps / c.share
        for c in way
        if c.link.capacity_GBps is not None
        and fabric.host_of(c.link.src) is None
        and fabric.host_of(c.link.dst) is None
    ]
    return min(rates, default=math.inf) / max(1, len(_nics_out(fabric, way)))


def _rate(crossings: Sequence[Crossing]) -> float:
    """What a route carries: its tightest link by share. Unknown links do not limit."""
    rates = [c.link.capacity_GBps / c.share for c in crossings if c.link.capacity_GBps is not None]
    if not rates:
        names = ", ".join(c.link.name for c in crossings) or "the ranks"
        raise UsageError(
            "no bandwidth known", where=names, expected="a figure for at least one link on the way"
        )
    return min(rates)


def _fill(rate_GBps: float, speeds: Sequence[float]) -> tuple[int, float]:
    """Most bandwidth first, then fewest channels."""
    choices = [(int(rate_GBps / s + 1e-9), s) for s in speeds if s <= rate_GBps * (1 + 1e-9)]
    choices = [(count, s) for count, s in choices if count <= MAX_RING_CHANNELS]
    if not choices:
        return _duplicate(1, rate_GBps)
    return _duplicate(*max(choices, key=lambda choice: (choice[0] * choice[1], choice[1])))


def _duplicate(channels: int, speed: float) -> tuple[int, float]:
    """ncclTopoDupChannels for sm_90: twice the channels at half the speed, unless there are enough."""
    if speed >= 25 and not (speed < 50 and channels > 4):
        return 2 * channels, speed / 2
    return channels, speed
