"""Better orders of ranks for a job's groups: candidates, priced by predictions."""
