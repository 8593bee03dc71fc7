"""Every check on a fabric, most severe first. Pure."""

from __future__ import annotations

from collections.abc import Callable

from clusterlab.core.findings import Finding, most_severe_first
from clusterlab.topology.checks.cabling import cabling
from clusterlab.topology.checks.capacity_mismatch import capacity_mismatch
from clusterlab.topology.checks.down import down
from clusterlab.topology.checks.isolated import isolated_leaves
from clusterlab.topology.checks.nic_distance import nic_distance
from clusterlab.topology.checks.ports import ports
from clusterlab.topology.checks.unknown import unknown
from clusterlab.topology.fabric import Fabric
from clusterlab.topology.failures.faults import as_wired


def _cabling(fabric: Fabric) -> list[Finding]:
    """How the network is cabled, whatever is down in it: that is for ``down`` to tell, and once."""
    return cabling(as_wired(fabric))


CHECKS: tuple[Callable[[Fabric], list[Finding]], ...] = (
    isolated_leaves,
    down,
    _cabling,
    ports,
    capacity_mismatch,
    nic_distance,
    unknown,
)


def check(fabric: Fabric) -> list[Finding]:
    """What is wrong with ``fabric`` or unknown of it; nothing at all for a healthy, known one."""
    found = [finding for run in CHECKS for finding in run(fabric)]
    return most_severe_first(found)
