"""What the figures of a row may be: JSON holds numbers of any length, and figures of something else.

Not a number and infinity are figures of a row (a wrong element may be one). An amount is not below nothing,
and no time in a run is of more than MOST.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from clusterlab.core.errors import UsageError
from clusterlab.core.rows import Row
from clusterlab.records.strict import LARGEST, SMALLEST, json_types

MOST = 1e30
"""Above any time in µs and any bandwidth in GB/s; sums and squares of such still have a value."""

_COUNTS = (
    *("requested_bytes", "size_bytes", "count", "iterations", "warmup", "samples"),
    *("outliers", "calls_per_graph", "aggregated", "wrong", "attempt"),
)
# Not those that are differences (skews), nor intervals, nor what a library or a model says: one that says
# nonsense is judged as one that says nothing, and the measurement stays readable.
_AMOUNTS = (
    *("time_us_loop", "time_us_p50", "time_us_min", "time_us_max", "time_us_p95", "time_us_p99"),
    *("cv", "algbw_GBps", "busbw_GBps"),
)

BOUNDS: Mapping[str, tuple[float, float]] = {
    **{name: (SMALLEST, LARGEST) for name, kinds in json_types(Row).items() if int in kinds},
    **dict.fromkeys(_COUNTS, (0, LARGEST)),
    **dict.fromkeys(_AMOUNTS, (0.0, MOST)),
}
"""Field to its least and its most."""


def check_row(data: Mapping[str, Any], *, where: str) -> None:
    """Raise UsageError naming ``where`` and the first field whose figure none can be."""
    for name, (low, high) in BOUNDS.items():
        value = data.get(name)
        if value is None or low <= value <= high:
            continue
        if isinstance(value, float) and (math.isnan(value) or value == math.inf):
            continue
        least = "0 or more" if low == 0 else f"{low:.0f} or more"
        expected = least if value < low else f"at most {high:.4g}"
        raise UsageError(f"{value!r:.60}", where=f"{where}: {name}", expected=expected)


def usual(name: str, column: Sequence[Any]) -> bool:
    """Whether ``check_row`` has nothing against a field's values of many rows. False too where it has to
    look: of infinity, and where the first is not a number.
    """
    bounds = BOUNDS.get(name)
    if bounds is None:
        return True
    known = column if None not in column else [value for value in column if value is not None]
    # A comparison with NaN is false, so that only a first one hides the others.
    return not known or (min(known) >= bounds[0] and max(known) <= bounds[1])
