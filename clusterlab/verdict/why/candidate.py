"""One way a cause could have changed the curve."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.verdict.why.likelihood import Array


@dataclass(frozen=True, slots=True)
class Candidate:
    """``log_curve`` is log time (µs) at the table's points if ``code`` were the cause by ``variant``.

    ``weight`` is the variant's share among those of its code before the data. ``rate``, ``latency``,
    ``model`` and ``point`` widen the spread by so much more, where the effect itself is known roughly.
    """

    code: str
    variant: str
    log_curve: Array
    weight: float = 1.0
    rate: float = 0.0
    latency: float = 0.0
    model: float = 0.0
    point: float = 0.0
