"""Collective algorithms: what flows in each phase, what each round carries, what it adds up to."""
