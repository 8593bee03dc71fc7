"""Runs against runs: what differs, by how much, and whether that is more than runs differ by. Pure."""
