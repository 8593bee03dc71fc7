"""Write clusterlab/verdict/why/spread.yaml: how far healthy systems are from their predictions.

    python tests/benchmarks/fit_why.py MEASURED.csv… --write

Of the healthy tables of the files. A system counts once for each class it is of (the mean of its tables), and
a table that says what it forced is held against that. What is further off than a band's LIMIT is of machines
that the words do not describe, and counts as at that limit.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median

import numpy as np

from clusterlab.core.errors import ClusterlabError
from clusterlab.cost.scoring.measured import MeasuredPoint, read_measured
from clusterlab.cost.scoring.scored import request_for
from clusterlab.verdict.why import ordinary
from clusterlab.verdict.why.bands import BANDS, bands_of
from clusterlab.verdict.why.ordinary import kind_of
from clusterlab.verdict.why.world import world_of

TARGET = Path(ordinary.__file__).with_name("spread.yaml")
LIMIT = {"floor": math.log(4), "middle": math.log(3), "plateau": math.log(2), "hump": math.log(3)}


def tables(paths: Sequence[Path]) -> Iterator[list[MeasuredPoint]]:
    """The points of each healthy table."""
    for path in paths:
        found: defaultdict[tuple[object, ...], list[MeasuredPoint]] = defaultdict(list)
        for point in read_measured(path).points:
            found[point.table, point.collective, point.dtype, point.n_ranks].append(point)
        yield from found.values()


def off(points: Sequence[MeasuredPoint]) -> tuple[str, dict[str, float]] | None:
    """The class of a table's machines, and how far it is off by band; None where nothing is predicted."""
    try:
        world = world_of(request_for(points[-1]))
        curve = world.curve([p.size_bytes for p in points])
    except ClusterlabError:
        return None
    sizes = np.array([p.size_bytes for p in points], float)
    ratio = np.log([p.time_us for p in points]) - np.log(curve)
    return kind_of(world.comm), bands_of(sizes, ratio)


def per_system(paths: Sequence[Path]) -> dict[str, dict[str, dict[str, float]]]:
    """Band → class → system → mean of what its tables are off."""
    every: dict[str, defaultdict[str, defaultdict[str, list[float]]]] = {
        band: defaultdict(lambda: defaultdict(list)) for band in BANDS
    }
    for points in tables(paths):
        found = off(points)
        if found is None:
            continue
        kind, bands = found
        for band, value in bands.items():
            cut = min(LIMIT[band], max(-LIMIT[band], value))
            every[band][kind][points[0].system].append(cut)
    return {
        band: {k: {s: fmean(v) for s, v in systems.items()} for k, systems in kinds.items()}
        for band, kinds in every.items()
    }


def width_of(kinds: dict[str, dict[str, float]]) -> float:
    """Standard deviation over all systems; the hump's is about a median of its own, so from its square."""
    squares = [value**2 for systems in kinds.values() for value in systems.values()]
    return math.sqrt(max(fmean(squares), median(squares)))


def main() -> None:
    """Fit and, with --write, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = per_system(given.files)
    systems = {s for kinds in found.values() for own in kinds.values() for s in own}
    lines = [
        "# Written by tests/benchmarks/fit_why.py; what it is: ordinary.py.",
        "# Log of measured over expected time of healthy systems: over all, then by band and class",
        "# [systems, sum of squares].",
        f'source: "healthy tables of {len(systems)} systems, the constants of cost/effects"',
        "widths:",
        *(f"  {band}: {width_of(kinds):.4f}" for band, kinds in found.items()),
        "seen:",
    ]
    for band, kinds in found.items():
        lines.append(f"  {band}:")
        for kind in sorted(kinds):
            values = kinds[kind].values()
            lines.append(f"    {kind}: [{len(values)}, {sum(v * v for v in values):.5f}]")
    text = "\n".join(lines) + "\n"
    if given.write:
        TARGET.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
