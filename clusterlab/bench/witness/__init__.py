"""What NCCL did at each point, learnt from its own log, outside all that is timed."""

from clusterlab.bench.witness.facts import LibraryFacts
from clusterlab.bench.witness.witness import Witness, open_witness

__all__ = ["LibraryFacts", "Witness", "open_witness"]
