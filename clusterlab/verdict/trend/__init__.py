"""The same points over many runs: what changed, since when, on which nodes. Pure."""
