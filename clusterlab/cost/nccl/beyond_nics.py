"""What the network beyond the NICs leaves to each way of talking. NCCL's own model ends at the port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clusterlab.cost.flows.crossing import UNHINDERED, Crossing, Routing, crossings
from clusterlab.cost.flows.patterns import Pattern
from clusterlab.topology.fabric import Fabric

_TREES = ("tree", "nvls_tree")


@dataclass(frozen=True, slots=True)
class BeyondNics:
    """``ring`` stands for every way but trees of collectives, and for all messages of the others."""

    ring: Crossing = UNHINDERED
    tree: Crossing = UNHINDERED

    def of(self, algorithm: str) -> Crossing:
        """What is left to ``algorithm``."""
        return self.tree if algorithm in _TREES else self.ring


def beyond_nics(
    fabric: Fabric,
    collective: str,
    groups: Sequence[Sequence[str]],
    which: int,
    routing: Routing,
) -> BeyondNics:
    """For the group ``which`` of ``groups`` of devices in rank order, all at once. Raises UsageError where
    the network is cut in two between ranks.
    """
    if collective in ("gather", "scatter"):
        return BeyondNics()  # no more than the NICs of one node carry, in all of the network
    pattern: Pattern = "all" if collective == "all_to_all" else "ring"
    ring = crossings(fabric, groups, pattern, routing)[which]
    if collective != "all_reduce":
        return BeyondNics(ring, ring)
    return BeyondNics(ring, crossings(fabric, groups, "tree", routing)[which])
