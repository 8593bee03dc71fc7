"""How switches choose among equal ways, where nobody says: as the fabric does, else as the traffic allows."""

from __future__ import annotations

from clusterlab.core.suggest import unknown
from clusterlab.cost.flows.crossing import ROUTINGS, Routing
from clusterlab.topology.fabric import Fabric

_OF_BACKEND: dict[str, Routing] = {"gloo": "pinned", "nccl": "adaptive"}
"""gloo has one TCP connection for two ranks, and packets of a connection are kept in order: it takes one way.
NCCL's many queue pairs fill all ways on the networks that are built for them.
"""


def routing_of(fabric: Fabric, backend: str, asked: str | None = None) -> Routing:
    """``asked`` where it is said (``--routing``), else the fabric's own, else what suits the backend.

    Raises UsageError with the nearest name.
    """
    said = asked or fabric.routing
    if said is None:
        return _OF_BACKEND[backend]
    if said not in ROUTINGS:
        raise unknown("routing", said, ROUTINGS, where="--routing" if asked else fabric.name)
    return ROUTINGS[ROUTINGS.index(said)]
