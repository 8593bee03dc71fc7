"""What a collective should take on a fabric: schedules, bounds, predictions. Pure."""
