"""NCCL's constants for one system, fitted to what was measured on it, and how far off they are elsewhere."""
