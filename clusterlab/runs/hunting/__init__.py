"""Measuring until what is at fault has a name; the same of finished runs."""
