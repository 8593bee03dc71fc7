"""A sweep: planned, predicted, measured by local or launched ranks, resumed, submitted."""
