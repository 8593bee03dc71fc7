"""Renders what others decided: terminal, HTML. Decides nothing."""
