"""Files that other tools read."""
