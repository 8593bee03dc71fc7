"""A fabric with some of it down or degraded: what to break, the broken fabric, what that took away."""
