"""Rails inferred from which leaves the hosts share."""
