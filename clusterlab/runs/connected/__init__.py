"""Runs as other tools read them: metrics, traces, training curves, nccl-tests' files."""
