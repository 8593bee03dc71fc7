"""What flows between hosts put on the network's cables, and what that leaves of the NICs' rate."""
