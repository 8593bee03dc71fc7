"""What Slurm says when it refuses, as an exception the prediction ends with."""

from __future__ import annotations

INVALID_GRES = "Invalid generic resource (gres) specification"
UNAVAILABLE = "Unable to allocate resources: Requested node configuration is not available"


class RejectedError(Exception):
    """Slurm refuses: ``message`` is what it prints, one or several lines, job ids left out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BusyError(Exception):
    """A step does not fit beside those that run now; Slurm tries again when one has ended."""
