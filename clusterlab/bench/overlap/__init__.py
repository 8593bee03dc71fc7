"""Two things at once: a collective beside compute, and two collectives beside each other."""
