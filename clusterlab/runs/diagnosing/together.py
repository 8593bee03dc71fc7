"""Every rank shows what it saw, one rank reports on all: what diagnoses and discoveries share."""

from __future__ import annotations

import os

from clusterlab.launch.desk import Record
from clusterlab.launch.gather import Report, gather
from clusterlab.launch.join import Arrival


def report_together(
    arrival: Arrival, name: str, record: Record, report: Report, *, end: float
) -> int:
    """Show ``record`` and return what ``report`` made of all of them, on whichever rank it ran.

    ``end`` is when (``time.monotonic``) those that have not come count as missing. Collective.
    """
    try:
        return gather(
            arrival.identity,
            name,
            record,
            report,
            pmix=arrival.pmix,
            environ=os.environ,
            end=end,
        )
    finally:
        if arrival.pmix is not None:
            # Leaving properly even when a rank is missing: otherwise Slurm kills the step, and with it
            # the ranks that came, whose exit code is the answer.
            arrival.pmix.finalize()
