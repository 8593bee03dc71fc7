"""NCCL's words in its own order: algorithms, protocols, collectives it models, kinds of path.

The order is that of NCCL's enumerations (`src/include/nccl_tuner.h`, `src/graph/topo.h`): among equals the
first wins.
"""

from __future__ import annotations

from typing import get_args

from clusterlab.core.collectives import collective as named
from clusterlab.core.errors import UsageError
from clusterlab.cost.nccl.communicator import Communicator, Graph, PathName

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
COLLECTIVES = ("broadcast", "reduce", "all_gather", "reduce_scatter", "all_reduce")
GATHERS = ("all_gather", "reduce_scatter")
ROOTED = ("broadcast", "reduce")

NCCL_ALGORITHMS = dict(
    zip(
        ALGORITHMS,
        ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"),
        strict=True,
    )
)
NCCL_PROTOCOLS = dict(zip(PROTOCOLS, ("LL", "LL128", "Simple"), strict=True))
NCCL_COLLECTIVES = dict(
    zip(
        COLLECTIVES,
        ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"),
        strict=True,
    )
)

_PATHS: dict[str, int] = {name: i for i, name in enumerate(get_args(PathName))}
_GRAPH_OF = {"nvls_tree": "nvls", "pat": "tree"}
_NOT_FOUND = Graph("tree", 0, 0.0, 0.0, "LOC", "LOC", same_channels=False)


def modelled(collective: str) -> str:
    """Our name of a collective that NCCL's tuning models. Raises UsageError for the others."""
    name = named(collective).name
    if name not in COLLECTIVES:
        raise UsageError(
            f"NCCL has no model of {name}",
            where="collective",
            expected="one of " + ", ".join(COLLECTIVES),
        )
    return name


def as_near(path: str, limit: str) -> bool:
    """Whether ``path`` is ``limit`` or nearer."""
    return _PATHS[path] <= _PATHS[limit]


def graph_of(algorithm: str, comm: Communicator) -> Graph:
    """The graph that ``algorithm`` runs on; one without channels where the search found none."""
    return comm.graphs.get(_GRAPH_OF.get(algorithm, algorithm), _NOT_FOUND)
