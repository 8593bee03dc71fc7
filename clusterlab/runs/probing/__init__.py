"""Runs that are no sweeps: bring-up, copies, overlap, soak."""
