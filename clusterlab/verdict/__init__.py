"""What rows and predictions mean: verdicts, causes, runs against runs. Pure."""
