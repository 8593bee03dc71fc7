"""Why measured collectives are slower than predicted: hypotheses, each a curve, ranked by its fit. Pure."""
