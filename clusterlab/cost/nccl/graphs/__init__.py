"""What makes a Communicator: from a fabric and a placement, or from what NCCL itself wrote."""

from clusterlab.cost.nccl.graphs.build import communicator

__all__ = ["communicator"]
