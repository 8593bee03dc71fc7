"""Runs against runs and baselines."""
