"""Measuring how ranks come up: phases to the first collective, and communicators made repeatedly."""
