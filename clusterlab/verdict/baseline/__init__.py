"""Reference figures of a machine: made of runs, checked against runs. Pure."""
