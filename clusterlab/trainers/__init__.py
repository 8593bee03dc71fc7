"""What a training step takes under each parallelism."""
