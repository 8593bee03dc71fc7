"""What did it take: running collectives, timing them, checking their data."""
