"""What of a report for people is too wide."""

from __future__ import annotations

from collections.abc import Sequence


def too_wide(lines: Sequence[str], width: int) -> list[str]:
    """Lines wider than ``width``, but for the commands of a fix, which are not broken."""
    found: list[str] = []
    in_fix = False
    for line in lines:
        in_fix = line == "  fix:" or (in_fix and line.startswith("    "))
        command = in_fix and not line.startswith("    # ")
        if len(line) > width and not command:
            found.append(line)
    return found
