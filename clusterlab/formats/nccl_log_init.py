"""NCCL's own account of its init in an NCCL_DEBUG=INFO log.

``Init timings: rank 0 nranks 2 total 0.59 (kernels 0.47, …)`` in 2.22 (src/init.cc ncclCommInitRankFunc);
since 2.23 ``Init timings - FUNCTION: rank …`` with ``alloc`` among the parts. ``Bootstrap timings total …
(create …, send …, recv …, ring …, delay …)`` since 2.23 (src/bootstrap.cc bootstrapInit). Older versions
print neither. Parts are read by the names that stand there, so that a new one is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from clusterlab.formats.nccl_log_lines import LogLine

_NUMBER = r"-?\d{1,9}(?:\.\d{1,9})?"
_INIT = re.compile(
    r"Init timings(?: - (?P<function>\w{1,64}))?: rank (?P<rank>\d{1,9}) nranks (?P<nranks>\d{1,9})"
    rf" total (?P<total>{_NUMBER}) \((?P<parts>[^()]{{0,400}})\)"
)
_BOOTSTRAP = re.compile(
    rf"Bootstrap timings total (?P<total>{_NUMBER}) \((?P<parts>[^()]{{0,400}})\)"
)
_PART = re.compile(rf"(\w{{1,32}}) ({_NUMBER})")


@dataclass(frozen=True, slots=True)
class InitTimings:
    """One communicator's init on one rank, in seconds. ``bootstrap`` splits the part of that name."""

    rank: int
    nranks: int
    function: str | None
    total_s: float
    parts: dict[str, float]
    bootstrap: dict[str, float] = field(default_factory=dict)


def init_timings(lines: Iterable[LogLine]) -> list[InitTimings]:
    """One for each communicator and rank, in the order in which they were done."""
    found: list[InitTimings] = []
    bootstraps: dict[
        object, dict[str, float]
    ] = {}  # the thread that inits prints its bootstrap first
    for line in lines:
        match = _BOOTSTRAP.search(line.message)
        if match is not None:
            bootstraps[line.writer] = _parts(match["parts"])
            continue
        match = _INIT.search(line.message)
        if match is not None:
            found.append(
                InitTimings(
                    int(match["rank"]),
                    int(match["nranks"]),
                    match["function"],
                    float(match["total"]),
                    _parts(match["parts"]),
                    bootstraps.pop(line.writer, {}),
                )
            )
    return found


def _parts(text: str) -> dict[str, float]:
    return {name: float(seconds) for name, seconds in _PART.findall(text)}
