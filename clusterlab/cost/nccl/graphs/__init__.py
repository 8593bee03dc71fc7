"""What makes a Communicator: from a fabric and a placement, or from what NCCL itself wrote."""

from clusterlab.cost.nccl.graphs.build import communicator
from clusterlab.cost.nccl.graphs.written import communicator_from_graphs

__all__ = ["communicator", "communicator_from_graphs"]
