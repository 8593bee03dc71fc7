"""Paths over a fabric and what they share."""
