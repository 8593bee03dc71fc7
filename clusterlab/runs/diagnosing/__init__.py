"""What every rank of a job, or a machine, sees of itself."""
