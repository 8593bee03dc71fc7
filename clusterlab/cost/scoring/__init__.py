"""Measurements that others made, predicted row by row, and how far off the predictions are."""
