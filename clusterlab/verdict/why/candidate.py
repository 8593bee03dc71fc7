"""One way a cause could have changed the curve."""

from __future__ import annotations

from dataclasses import dataclass

from clusterlab.verdict.why.likelihood import Array


@dataclass(frozen=True, slots=True)
class Candidate:
    """``log_curve`` is log time (µs) at the table's points if ``code`` were the cause by ``variant``.

    ``weight`` is the variant's share among those of its code before the data. ``rate``, ``latency``,
    ``model`` and ``point`` widen the spread by so much more, where the effect itself is known roughly.
    ``inside``: 1 for the points of a window in which nothing is known to better than a factor, else 0.
    ``among``: the weight of all variants of the code, where not all were worth making; 0: their sum.
    """

    code: str
    variant: str
    log_curve: Array
    weight: float = 1.0
    rate: float = 0.0
    latency: float = 0.0
    model: float = 0.0
    point: float = 0.0
    inside: Array | None = None
    among: float = 0.0
