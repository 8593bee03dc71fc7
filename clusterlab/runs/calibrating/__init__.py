"""A system's own constants, from its measurements."""
