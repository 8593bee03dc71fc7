"""Fabrics to the files of other tools: one file per format."""
