"""A row's timing as the cost room's word: how calls are issued."""

from __future__ import annotations

from clusterlab.core.errors import UsageError
from clusterlab.core.suggest import unknown
from clusterlab.cost.types import Issue

ISSUE_OF_TIMING: dict[str, Issue] = {"eager": "eager", "graph": "graph", "direct": "library"}
"""What a point's timing is to a prediction: ``direct`` calls are the library's own, as nccl-tests' are."""


def issue_of(timing: str, *, where: str = "timing") -> Issue:
    """How calls of a point with ``timing`` are issued. Raises UsageError for a timing nobody predicts."""
    issue = ISSUE_OF_TIMING.get(timing)
    if issue is None:
        error: UsageError = unknown("timing", timing, ISSUE_OF_TIMING, where=where)
        raise error
    return issue
