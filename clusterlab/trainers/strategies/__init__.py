"""Strategies, one file each: the explicit form, and torch's own beside it where there is one."""
