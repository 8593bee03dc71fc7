"""Every rank shows what it saw, one rank reports on all: what diagnoses and discoveries share."""

from __future__ import annotations

import os
import time

from clusterlab.launch.join import Arrival
from clusterlab.launch.reach import reach
from clusterlab.launch.roll_call import Record, Report, report_call

_LEAST_S = 3.0
"""What is left for joining at least, however late the rank found the store."""


def report_together(
    arrival: Arrival, name: str, record: Record, report: Report, *, end: float
) -> int:
    """Show ``record`` and return what ``report`` made of all of them, on whichever rank it ran.

    ``end`` is when (``time.monotonic``) those that have not come count as missing. Collective.
    """
    identity = arrival.identity
    meeting = arrival.meeting = reach(
        identity,
        pmix=arrival.pmix,
        environ=os.environ,
        timeout_s=max(_LEAST_S, end - time.monotonic()),
    )
    code = report_call(
        meeting.store,
        identity,
        name,
        record,
        report,
        served_here=meeting.served_here,
        reporter=meeting.stand_in or 0,
        timeout_s=max(_LEAST_S, end - time.monotonic()),
    )
    if meeting.meeting_point is not None:
        meeting.meeting_point.close()
    if arrival.pmix is not None:
        # Leaving properly even when a rank is missing: otherwise Slurm kills the step, and with it the
        # ranks that came, whose exit code is the answer.
        arrival.pmix.finalize()
    return code
