"""Plans: a strategy as the list of its collectives, its pipeline, bubble and memory. Pure, without torch."""
