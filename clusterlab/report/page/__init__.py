"""The page of a run: its parts as values that templates place."""
