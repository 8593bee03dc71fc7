"""What each rank really got: seen by the rank itself, joined over all."""

from clusterlab.binding.probe.joining import join_parts
from clusterlab.binding.probe.rank import THIS_MACHINE, Machine, probe_here

__all__ = ["THIS_MACHINE", "Machine", "join_parts", "probe_here"]
