"""A training run: its setup, its ranks, its steps, kept and predicted."""
