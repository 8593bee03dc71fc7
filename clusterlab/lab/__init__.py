"""A cluster in a box: real Slurm and PMIx with fake GPUs in namespaces."""
