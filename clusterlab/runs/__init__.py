"""The story of one run: plan, predict, open, measure, append, judge."""
