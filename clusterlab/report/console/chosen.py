"""What the library did, beside what was predicted: algorithm and protocol by size, in a line."""

from __future__ import annotations

import itertools

from clusterlab.core.rows import Row
from clusterlab.core.sizes import human_size
from clusterlab.report.curves import Curve
from clusterlab.report.text import plain


def did(row: Row) -> str | None:
    """``ring ll128, 24 channels``; None where the library said nothing."""
    words = " ".join(w for w in (row.library_algorithm, row.library_protocol) if w)
    channels = f"{row.library_channels} channels" if row.library_channels is not None else ""
    return plain(", ".join(w for w in (words, channels) if w)) or None


def chosen_line(curve: Curve) -> str | None:
    """``the library chose ring ll to 64 KiB, nvls simple from 128 KiB; 1 of 20 sizes as predicted``; None
    where it said nothing.
    """
    said = [(h.first, _way(h.first)) for h in curve.sizes]
    known = [(row, way) for row, way in said if way]
    if not known:
        return None
    parts = []
    for way, group in itertools.groupby(known, key=lambda pair: pair[1]):
        sizes = [row.size_bytes for row, _ in group]
        span = human_size(sizes[0])
        span += f" to {human_size(sizes[-1])}" if len(sizes) > 1 else ""
        parts.append(f"{way} ({span})")
    line = f"the library chose {', '.join(parts)}"
    predicted = [(row, way) for row, way in known if row.algorithm]
    if predicted:
        as_predicted = sum(way == _predicted(row) for row, way in predicted)
        line += f"; as predicted at {as_predicted} of {len(predicted)} sizes"
    return plain(line)


def _way(row: Row) -> str:
    return " ".join(w for w in (row.library_algorithm, row.library_protocol) if w)


def _predicted(row: Row) -> str:
    """The prediction, as far as the library said its own: some logs name no protocol."""
    protocol = row.protocol if row.library_protocol else None
    return " ".join(w for w in (row.algorithm, protocol) if w)
