"""Foreign text to plain data and back, one file per format. The only room that parses."""
