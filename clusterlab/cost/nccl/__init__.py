"""What NCCL does: its constants by version, its graphs, its choice."""
