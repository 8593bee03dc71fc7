"""What Slurm will give each task of a job, foretold from its options alone."""
