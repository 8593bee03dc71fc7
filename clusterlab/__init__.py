"""clusterlab: bring up, measure and debug multi-GPU clusters."""

__version__ = "0.1.0"
