"""The fabric: what connects the ranks. Designs, discovery, routing, failures."""
