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
    if asked is not None:
        return named_routing(asked)
    if fabric.routing is not None:
        return named_routing(fabric.routing, where=fabric.name)
    return _OF_BACKEND[backend]


def named_routing(word: str, *, where: str = "--routing") -> Routing:
    """The routing called ``word``. Raises UsageError with the nearest name."""
    if word not in ROUTINGS:
        raise unknown("routing", word, ROUTINGS, where=where)
    return ROUTINGS[ROUTINGS.index(word)]
