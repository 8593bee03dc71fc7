"""The run directory and its one row schema: append-only, readable years later."""
