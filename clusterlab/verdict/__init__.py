"""What rows and predictions mean: compare, why, localise. Pure."""
